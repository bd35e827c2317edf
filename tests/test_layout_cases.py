"""Layouts that users try: heads, odd numbers, and more devices than there are."""

import json
from pathlib import Path

import pytest

from workbench.errors import NotSupportedHere, SpecError
from workbench.serve import guards
from workbench.serve.guards import check_launch
from workbench.serve.layouts import describe, fitting
from workbench.specs import LaunchSpec, ModelRef, Parallelism
from workbench.zoo.families import family_of

MODEL = ModelRef("embedded:qwen-image")
H200 = {"name": "NVIDIA H200", "compute_capability": [9, 0]}


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "gpus", lambda: [H200] * 4)


@pytest.fixture
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "gpus", lambda: [H200] * 8)


def pipeline(folder: Path, heads: int) -> Path:
    """A pipeline's configs: guards read no weights."""
    (folder / "transformer").mkdir(parents=True)
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "QwenImagePipeline"}))
    config = {"num_attention_heads": heads, "attention_head_dim": 128}
    (folder / "transformer" / "config.json").write_text(json.dumps(config))
    return folder


def launch(folder: Path, **sizes: object) -> None:
    spec = LaunchSpec(model=MODEL, parallelism=Parallelism(**sizes))
    check_launch(spec, family_of(folder), folder)


@pytest.mark.parametrize(
    ("heads", "sizes", "message"),
    [
        (30, {"tensor_parallel_size": 4}, r"=4 does not divide the 30 .*\[1, 2, 3, 5, 6, 10,"),
        (52, {"tensor_parallel_size": 8}, r"=8 does not divide the 52 .*\[1, 2, 4, 13,"),
        (24, {"ulysses_degree": 8}, None),
        (24, {"ulysses_degree": 7}, r"ulysses_degree=7 .*\[1, 2, 3, 4, 6, 8, 12, 24\]"),
        (24, {"tensor_parallel_size": 2, "ulysses_degree": 4}, None),
        (30, {"tensor_parallel_size": 2, "ulysses_degree": 2}, r"rank has 15; use one of \[1, 3"),
        (2, {"tensor_parallel_size": 4}, r"use one of \[1, 2\]"),
    ],
)
@pytest.mark.usefixtures("eight_gpus")
def test_heads_against_ranks(
    tmp_path: Path, heads: int, sizes: dict[str, int], message: str | None
) -> None:
    folder = pipeline(tmp_path, heads)
    if message is None:
        launch(folder, **sizes)
        return
    with pytest.raises(SpecError, match=message):
        launch(folder, **sizes)


@pytest.mark.parametrize("field", ["tensor_parallel_size", "ulysses_degree", "cfg_parallel_size"])
@pytest.mark.parametrize("value", [0, -1, True, "two", "-1", 1.5, None])
def test_no_number_of_devices(field: str, value: object) -> None:
    with pytest.raises(SpecError, match=field):
        Parallelism(**{field: value})


@pytest.mark.parametrize("field", list(Parallelism.model_fields))
def test_digits_are_the_number_in_every_field(field: str) -> None:
    assert Parallelism(**{field: "2"}) == Parallelism(**{field: 2})
    assert Parallelism(**{field: "2"}).key == Parallelism(**{field: 2}).key


@pytest.mark.usefixtures("four_gpus")
def test_eight_devices_on_four(tmp_path: Path) -> None:
    folder = pipeline(tmp_path, 24)
    sizes = {"tensor_parallel_size": 2, "ulysses_degree": 2, "cfg_parallel_size": 2}
    with pytest.raises(NotSupportedHere, match="needs 8 GPUs and 4 are here; these fit") as caught:
        launch(folder, **sizes)
    offered = str(caught.value).partition("these fit: ")[2].split(", or ")
    assert offered == [
        "ulysses_degree=2 x cfg_parallel_size=2",
        "tensor_parallel_size=2 x cfg_parallel_size=2",
        "tensor_parallel_size=2 x ulysses_degree=2",
    ]
    for layout in offered:
        pairs = (pair.split("=") for pair in layout.split(" x "))
        launch(folder, **{name: int(size) for name, size in pairs})


@pytest.mark.parametrize(
    ("asked", "devices", "heads", "expected"),
    [
        ({"tensor_parallel_size": 4}, 2, [24], ["tensor_parallel_size=2", "a single device"]),
        ({"tensor_parallel_size": 4}, 1, [24], ["a single device"]),
        ({"tensor_parallel_size": 2, "ulysses_degree": 2}, 3, [3], ["a single device"]),
        (
            {"tensor_parallel_size": 6},
            5,
            [24],
            ["tensor_parallel_size=3", "tensor_parallel_size=2", "a single device"],
        ),
    ],
)
def test_what_fits(asked: dict, devices: int, heads: list[int], expected: list[str]) -> None:
    layouts = fitting(Parallelism(**asked), devices, heads)
    assert [describe(layout) for layout in layouts] == expected


@pytest.mark.usefixtures("four_gpus")
def test_a_family_that_is_not_served_says_why(tmp_path: Path) -> None:
    folder = pipeline(tmp_path, 24)
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "ZImagePipeline"}))
    with pytest.raises(NotSupportedHere, match="not wired"):
        launch(folder)
