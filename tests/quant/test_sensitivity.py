"""The choice by hand, the measure on linears whose error is known, both on a real transformer."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.errors import QuantizationFailed
from workbench.quant import numerics
from workbench.quant.fakes import FAKES
from workbench.quant.pipelines import Clock
from workbench.quant.recorded import CallRecorder
from workbench.quant.sensitivity import Fake, Sensitivity, choose, effective_bits, measure
from workbench.recipes import Calibration, QuantRecipe
from workbench.zoo.inventory import linears

BITS = {"NVFP4": 4.5, "FP8": 8.0}


def found(*facts: tuple[str, int, float, float]) -> list[Sensitivity]:
    return [
        Sensitivity(
            component="transformer", group=name, linears=(name,), parameters=size,
            errors={"NVFP4": small, "FP8": large},
        )
        for name, size, small, large in facts
    ]  # fmt: skip


def split(layers: list[Sensitivity], bits: float) -> dict[str, str]:
    chosen = choose(layers, BITS, small="NVFP4", large="FP8", effective_bits=bits)
    assert effective_bits(layers, chosen, BITS) <= bits + 1e-9
    return {name: scheme for (_, name), scheme in chosen.items()}


def test_the_least_squared_error_a_byte_goes_first() -> None:
    """Cost a weight: a 3e-4, b 8e-4 / 4, c 24e-4; so b goes first, then a."""
    layers = found(("a", 1, 0.02, 0.01), ("b", 4, 0.03, 0.01), ("c", 1, 0.05, 0.01))
    assert split(layers, 8.0) == {"a": "FP8", "b": "FP8", "c": "FP8"}
    assert split(layers, 8 - 4 * 3.5 / 6) == {"a": "FP8", "b": "NVFP4", "c": "FP8"}
    assert split(layers, 8 - 5 * 3.5 / 6) == {"a": "NVFP4", "b": "NVFP4", "c": "FP8"}
    assert split(layers, 4.5) == {"a": "NVFP4", "b": "NVFP4", "c": "NVFP4"}


def test_what_a_large_last_layer_saves_too_much_is_given_back() -> None:
    layers = found(("a", 1, 0.02, 0.0), ("big", 10, 0.5, 0.0))
    assert split(layers, 8 - 3.5 * 9 / 11) == {"a": "FP8", "big": "NVFP4"}


def test_equal_errors_are_chosen_by_name_whatever_the_order() -> None:
    layers = found(*((name, 1, 0.02, 0.01) for name in "abcd"))
    splits = [split(list(order), 6.25) for order in itertools.permutations(layers)]
    assert all(one == splits[0] for one in splits)
    assert splits[0]["a"] == splits[0]["b"] == "NVFP4"


class Two(nn.Module):
    """y = a x + b x: the error of either alone is that of its product."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = nn.Linear(64, 32, bias=False), nn.Linear(64, 32, bias=False)
        self.a.weight.data = torch.randn(32, 64, generator=generator)
        self.b.weight.data = torch.randn(32, 64, generator=generator) / 10

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.a(hidden) + self.b(hidden),)


@pytest.fixture
def calls() -> list:
    generator = torch.Generator().manual_seed(1)
    return [((), {"hidden": torch.randn(4, 64, generator=generator)}) for _ in range(2)]


def test_the_error_is_that_of_the_output_with_one_layer_rounded(calls: list) -> None:
    model = Two()
    groups, amax = {"a": ("a",), "b": ("b",), "both": ("a", "b")}, {"a": 5.0, "b": 5.0}
    before = [weight.clone() for weight in model.parameters()]
    rows = {row.group: row for row in measure("m", model, calls, groups, FAKES, amax=amax)}
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    squares = []
    for _, options in calls:
        x = options["hidden"]
        a, b = model.a.weight.detach(), model.b.weight.detach()
        rounded = numerics.nvfp4(x, 5.0) @ numerics.nvfp4(a, a.abs().max()).T
        difference = rounded - x @ a.T
        squares.append((difference.norm() / (x @ a.T + x @ b.T).norm()) ** 2)
    expected = float(torch.stack(squares).mean().sqrt())
    assert rows["a"].errors["NVFP4"] == pytest.approx(expected, rel=1e-3)
    assert rows["a"].errors["NVFP4"] > 5 * rows["b"].errors["NVFP4"]
    assert rows["a"].errors["NVFP4"] > 2 * rows["a"].errors["FP8"]
    assert rows["both"].parameters == 2 * rows["a"].parameters


def test_a_scheme_of_weights_alone_leaves_inputs(calls: list) -> None:
    nothing = {"same": Fake(weights=list)}
    (row,) = measure("m", Two(), calls, {"a": ("a",)}, nothing, amax={"a": 5.0})
    assert row.errors == {"same": 0.0}


@pytest.mark.parametrize(
    ("prompts", "steps", "expected"),
    [
        (1, 2, [(0, 0), (0, 1)]),
        (2, 2, [(0, 0), (1, 0), (0, 1), (1, 1)]),
        (9, 8, [(0, 0), (1, 2), (2, 5), (3, 7)]),
        (2, 1, [(0, 0), (1, 0)]),
    ],
)
def test_recorded_calls_are_of_all_prompts_and_steps(
    prompts: int, steps: int, expected: list[tuple[int, int]]
) -> None:
    model, clock = nn.Identity(), Clock()
    recorder = CallRecorder({"transformer": model}, clock)
    for prompt in range(prompts):
        clock.start(prompt)
        for clock.step in range(steps):
            model(torch.tensor([prompt, clock.step]))
            model(torch.tensor([prompt, 99]))  # the other branch of guidance
    recorder.remove()
    assert [tuple(call[0][0].tolist()) for call in recorder.spread("transformer")] == expected


def test_no_calls_and_values_not_finite_are_errors(calls: list) -> None:
    with pytest.raises(QuantizationFailed, match="no call of the m was recorded"):
        measure("m", Two(), [], {"a": ("a",)}, FAKES, amax={"a": 5.0})
    broken = {"bad": Fake(weights=lambda weights: [one * float("nan") for one in weights])}
    with pytest.raises(QuantizationFailed, match="only a in bad gives values not finite"):
        measure("m", Two(), calls, {"a": ("a",)}, broken, amax={"a": 5.0})


def test_a_measured_split_of_a_real_transformer(tiny_qwen: Path, runs: Path) -> None:
    calibration = Calibration(
        prompts=("a teapot on a table",), num_inference_steps=2, height=64, width=64
    )
    recipe = QuantRecipe(
        method="modelopt", scheme="MIXED", effective_bits=6, calibration=calibration
    )
    checkpoint = wb.quantize(str(tiny_qwen), recipe)
    table = checkpoint.sensitivity_table()
    assert list(table.error_NVFP4) == sorted(table.error_NVFP4, reverse=True)
    assert (table.error_NVFP4 >= table.error_FP8).mean() > 0.8
    bits = table.scheme.map(BITS)
    assert 5.5 < (bits * table.parameters).sum() / table.parameters.sum() <= 6
    split = {linear: row.scheme for row in table.itertuples() for linear in row.linears}
    assert split == {layer.name: layer.scheme for layer in checkpoint.layers}
    assert set(split.values()) == {"NVFP4", "FP8"}
    stored = linears(checkpoint.path / "transformer")
    assert {name: stored[name].scheme for name in split} == split
    last = table[table.group == "transformer_blocks.1.txt_mlp.net.2"]
    assert last.error_NVFP4.item() == 0, "the last block's text stream reaches no output"
    entry = json.loads((checkpoint.path / "transformer" / "config.json").read_text())
    assert entry["quantization_config"]["quant_algo"] == "MIXED_PRECISION"
