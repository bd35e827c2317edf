"""Ranges of inputs against maxima taken by hand."""

from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.errors import ModelNotFound, QuantizationFailed
from workbench.quant.pipelines import Clock
from workbench.quant.ranges import RangeRecorder
from workbench.recipes import Calibration


class Scheduler:
    """As little of one as the clock needs."""

    def step(self, output: torch.Tensor, timestep: float) -> torch.Tensor:
        return output


def test_the_largest_of_all_calls_of_a_step_and_of_all_prompts() -> None:
    model, clock, scheduler = nn.Sequential(nn.Linear(2, 2)), Clock(), Scheduler()
    clock.watch(scheduler)
    recorder = RangeRecorder({"transformer": model}, clock)
    for prompt, inputs in enumerate([[[1.0], [-3.0, 2.0]], [[-2.0, 1.0], [0.5]]]):
        clock.start(prompt)
        for timestep, values in zip((900.0, 100.0), inputs, strict=True):
            for value in values:
                model(torch.tensor([[value, 0.0]]))
            scheduler.step(torch.zeros(1), timestep)
    recorder.remove()
    model(torch.full((1, 2), 99.0))
    assert [(r["name"], r["step"], r["timestep"], r["amax"]) for r in recorder.rows()] == [
        ("0", 0, 900.0, 2.0),
        ("0", 1, 100.0, 3.0),
    ]
    assert recorder.largest() == {"transformer": {"0": 3.0}}


def test_an_input_that_is_not_finite_is_named() -> None:
    model, clock, scheduler = nn.Sequential(nn.Linear(2, 2)), Clock(), Scheduler()
    clock.watch(scheduler)
    RangeRecorder({"transformer": model}, clock)
    model(torch.tensor([[1.0, float("inf")]]))
    with pytest.raises(QuantizationFailed, match=r"transformer\.0 is inf at step 0 of prompt 1"):
        scheduler.step(torch.zeros(1), 900.0)


def test_ranges_of_a_16_bit_model(tiny_wan: Path) -> None:
    calibration = Calibration(
        prompts=("a dog runs",), num_inference_steps=3, height=64, width=64, num_frames=1
    )
    table = wb.activation_ranges(str(tiny_wan), calibration)
    assert list(table) == ["component", "name", "step", "timestep", "amax"]
    steps = table.groupby("component").step.unique().map(sorted)
    assert steps["transformer"] + steps["transformer_2"] == [0, 1, 2]
    assert table.groupby("step").timestep.first().is_monotonic_decreasing
    assert (table.amax > 0).all()
    assert len(table[table.step == 0]) == 16, "10 linears of the block, 6 outside"
    same = table.pivot_table(index="step", columns="name", values="amax")
    assert torch.tensor(same["blocks.0.attn1.to_q"] == same["blocks.0.attn1.to_k"]).all()


def test_guidance_of_the_second_expert_changes_its_steps_alone(tiny_wan: Path) -> None:
    size = {"num_inference_steps": 4, "height": 64, "width": 64, "num_frames": 1}
    one, other = (
        wb.activation_ranges(
            str(tiny_wan), Calibration(prompts=("a dog",), guidance_scale_2=scale, **size)
        ).set_index(["component", "name", "step"])
        for scale in (None, 9.0)
    )
    assert one.loc["transformer"].equals(other.loc["transformer"])
    last = one.index.get_level_values("step") == 3
    assert (one[last].amax != other[last].amax).any()
    assert set(one[last].index.get_level_values("component")) == {"transformer_2"}


def test_no_pipeline_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        wb.activation_ranges(str(tmp_path), Calibration(prompts=("a",)))
