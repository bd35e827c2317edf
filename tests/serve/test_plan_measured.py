"""The planner's estimate against full-sized models on one H200; see docs/results/speed.md."""

import json
from pathlib import Path

import pytest
from sparse_pipelines import save

import workbench as wb
from workbench.serve.plan_memory import GIB
from workbench.torchvision_ops import define_missing
from workbench.zoo import builders
from workbench.zoo.shapes import SHAPES

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CLASSES = {"FLUX.1-dev": "FluxPipeline", "Qwen-Image": "QwenImagePipeline"}
CONTEXT = 0.82 * GIB  # of a device beside what the allocator held, as NVML had it
CASES = [(name, scheme) for name in CLASSES for scheme in ("BF16", "FP8", "INT8")]


@pytest.fixture(scope="module", params=CASES, ids=" ".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str, dict[str, float], dict[str, int]]:
    """Name, scheme, and what its run of one picture at a time was measured to hold."""
    name, scheme = request.param
    card = json.loads((RESULTS / f"h200-{name.lower()}-shape.json").read_text())
    for row, run in zip(card["rows"], card["runs"], strict=True):
        if (row["precision"], row["layout"], row["concurrency"]) == (scheme, "one device", 1):
            return name, scheme, row, run["memory"][0]["weights"]
    raise AssertionError(f"no run of {name} in {scheme}")


@pytest.fixture(scope="module")
def folder(case: tuple[str, str, dict, dict], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shape's own names and sizes without a weight; other components in one tensor each."""
    name, _, _, weights = case
    shape, folder = SHAPES[name], tmp_path_factory.mktemp("plan") / name.lower()
    define_missing()
    named = builders._transformer(shape).named_parameters()
    tensors = {one: ("BF16", tuple(values.shape)) for one, values in named}
    save(folder / "transformer", tensors, dict(shape.transformer))
    configs = {"text_encoder_2": {"num_heads": 32}, "vae": shape.vae or {"base_dim": 96}}
    for component in weights.keys() - {"transformer"}:
        blob = {"layers.0.weight": ("BF16", (weights[component] // 2,))}
        save(folder / component, blob, dict(configs.get(component, {})))
    (folder / "model_index.json").write_text(json.dumps({"_class_name": CLASSES[name]}))
    return folder


def test_what_the_device_held_is_within_three_percent(
    case: tuple[str, str, dict, dict], folder: Path
) -> None:
    _, scheme, row, weights = case
    plan = wb.plan(
        str(folder),
        gpus=1,
        gpu_memory_gib=140,
        sampling=wb.Sampling(height=1024, width=1024),
        quantization=None if scheme == "BF16" else scheme.lower(),
    )
    layout = plan.layout()
    planned = sum(size for name, (size,) in layout.memory.items() if name in weights)
    assert planned == pytest.approx(row["weight_bytes"], rel=0.005)
    assert layout.needed == pytest.approx(row["reserved_peak_bytes"] + CONTEXT, rel=0.03)
