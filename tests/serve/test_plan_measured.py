"""The planner's estimate against full-sized models on H200s; see docs/results/speed.md."""

import json
from pathlib import Path

import diffusers
import pytest
import torch
from sparse_pipelines import save

import workbench as wb
from workbench.serve.plan_memory import GIB
from workbench.torchvision_ops import define_missing
from workbench.zoo import builders
from workbench.zoo.shapes import SHAPES

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CLASSES = {
    "FLUX.1-dev": ("FluxPipeline", "AutoencoderKL"),
    "Qwen-Image": ("QwenImagePipeline", "AutoencoderKLQwenImage"),
    "Wan2.2-TI2V-5B": ("WanPipeline", "AutoencoderKLWan"),
    "Wan2.2-T2V-A14B": ("WanPipeline", "AutoencoderKLWan"),
}
CONTEXT = 0.82 * GIB  # of a device beside what the allocator held, as NVML had it
SHARED = 1.50 * GIB  # the same of each of two
LAYOUTS = {
    "one device": wb.Parallelism(),
    "TP=2": wb.Parallelism(tensor_parallel_size=2),
    "CFG=2": wb.Parallelism(cfg_parallel_size=2),
}
CASES = [
    *((name, scheme, "one device") for name in CLASSES for scheme in ("BF16", "FP8")),
    *((name, "INT8", "one device") for name in ("FLUX.1-dev", "Qwen-Image")),
    *(("Qwen-Image", "BF16", layout) for layout in ("TP=2", "CFG=2")),
    ("Qwen-Image", "FP8", "TP=2"),
]
Case = tuple[str, str, str, dict[str, float], dict[str, int]]


@pytest.fixture(scope="module", params=CASES, ids=" ".join)
def case(request: pytest.FixtureRequest) -> Case:
    """Name, scheme, layout, and what its run of one request at a time was measured to hold."""
    name, scheme, layout = request.param
    card = json.loads((RESULTS / f"h200-{name.lower()}-shape.json").read_text())
    for row, run in zip(card["rows"], card["runs"], strict=True):
        if (row["precision"], row["layout"], row["concurrency"]) == (scheme, layout, 1):
            return name, scheme, layout, row, run["memory"][0]["weights"]
    raise AssertionError(f"no run of {name} in {scheme}, {layout}")


@pytest.fixture(scope="module")
def folder(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shape's own names and sizes without a weight; other components in one tensor each."""
    name, _, _, _, weights = case
    shape, folder = SHAPES[name], tmp_path_factory.mktemp("plan") / name.lower()
    define_missing()
    named = builders._transformer(shape).named_parameters()
    tensors = {one: ("BF16", tuple(values.shape)) for one, values in named}
    pipeline, vae = CLASSES[name]
    with torch.device("meta"):
        decoder = getattr(diffusers, vae)(**shape.vae)
    configs = {"text_encoder_2": {"num_heads": 32}, "vae": dict(decoder.config)}
    for component, size in weights.items():
        if component.startswith("transformer"):
            save(folder / component, tensors, dict(shape.transformer))
        else:
            blob = {"layers.0.weight": ("BF16", (size // 2,))}
            save(folder / component, blob, dict(configs.get(component, {})))
    index = {"_class_name": pipeline, **shape.pipeline}
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def test_what_the_device_held_is_within_three_percent(case: Case, folder: Path) -> None:
    name, scheme, where, row, weights = case
    layout = LAYOUTS[where]
    drawn = {k: v for k, v in SHAPES[name].sampling.items() if k in wb.Sampling.model_fields}
    plan = wb.plan(
        str(folder),
        gpus=layout.world_size,
        gpu_memory_gib=140,
        sampling=wb.Sampling(**drawn),
        quantization=None if scheme == "BF16" else scheme.lower(),
    ).layout(layout)
    planned = sum(sum(ranks) for name, ranks in plan.memory.items() if name in weights)
    assert planned == pytest.approx(row["weight_bytes"], rel=0.005)
    held = row["reserved_peak_bytes"] / layout.world_size
    beside = SHARED if layout.world_size > 1 else CONTEXT
    assert plan.needed == pytest.approx(held + beside, rel=0.03)
