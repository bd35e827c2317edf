"""The planner's estimate against full-sized models on H200s; see docs/results/speed.md."""

import json
from functools import cache
from pathlib import Path

import diffusers
import pytest
import torch
from sparse_pipelines import GPTQ, Shapes, save, w4a16

import workbench as wb
from workbench.serve.plan_memory import GIB
from workbench.torchvision_ops import define_missing
from workbench.zoo import builders
from workbench.zoo.families import FAMILIES
from workbench.zoo.presets import AUTOROUND, MODELOPT, kept_reason, preset_of
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
ONE, TP2, CFG2 = "one device", "TP=2", "CFG=2"
LAYOUTS = {
    ONE: wb.Parallelism(),
    TP2: wb.Parallelism(tensor_parallel_size=2),
    CFG2: wb.Parallelism(cfg_parallel_size=2),
}
DYNAMIC = "ModelOpt FP8 dynamic-all"
TWO = [(scheme, TP2) for scheme in ("BF16", "FP8", "W4A16")] + [("BF16", CFG2), ("W4A16", CFG2)]
IN_FLIGHT = [
    *((scheme, ONE, n) for scheme in ("BF16", "FP8", "INT8", DYNAMIC, "W4A16") for n in (4, 8, 16)),
    *((scheme, TP2, 8) for scheme in ("BF16", "FP8", "W4A16")),
]
CASES = [
    *((name, scheme, ONE, 1) for name in CLASSES for scheme in ("BF16", "FP8", "W4A16")),
    *((name, s, ONE, 1) for name in ("FLUX.1-dev", "Qwen-Image") for s in ("INT8", DYNAMIC)),
    *(("Qwen-Image", *case, 1) for case in TWO),
    *(("Qwen-Image", *case) for case in IN_FLIGHT),
    *(
        ("FLUX.1-dev", s, ONE, n)
        for s in ("BF16", "FP8", "INT8", DYNAMIC, "W4A16")
        for n in (4, 8, 16)
    ),
]
"""Model, precision, layout, and requests in flight: Qwen-Image's are stepped, FLUX.1's are not."""


@cache
def card(name: str) -> list[tuple[dict, dict]]:
    """Row and run of every measurement of a model."""
    content = json.loads((RESULTS / f"h200-{name.lower()}-shape.json").read_text())
    return list(zip(content["rows"], content["runs"], strict=True))


def measured(name: str, scheme: str, where: str, in_flight: int) -> tuple[dict, dict]:
    """The first eager run of that kind."""
    asked = (scheme, where, in_flight, False)
    for row, run in card(name):
        if (row["precision"], row["layout"], row["concurrency"], row["compiled"]) == asked:
            return row, run
    raise AssertionError(f"no run of {name} in {scheme}, {where}, {in_flight} in flight")


@cache
def shapes(name: str) -> Shapes:
    """The transformer's own names and sizes, without a weight."""
    named = builders._transformer(SHAPES[name]).named_parameters()
    return {one: ("BF16", tuple(values.shape)) for one, values in named}


def dynamic_fp8(name: str, outputs: int, inputs: int) -> Shapes:
    """As ModelOpt writes it, a scale a row."""
    weight = {f"{name}.weight": ("F8_E4M3", (outputs, inputs))}
    return weight | {f"{name}.weight_scale": ("F32", (outputs,))}


PACKED = {
    "W4A16": (AUTOROUND, w4a16, GPTQ),
    DYNAMIC: (MODELOPT, dynamic_fp8, {"quant_method": "modelopt", "quant_algo": "FP8"}),
}


def stored(name: str, scheme: str) -> tuple[Shapes, dict]:
    """The tensors of a checkpoint, and its quantization config."""
    plain = shapes(name)
    if scheme not in PACKED:
        return plain, {}
    method, pack, config = PACKED[scheme]
    (family,) = [one for one in FAMILIES if CLASSES[name][0] in one.pipelines]
    preset = preset_of(family.name)
    found: Shapes = {}
    for tensor, (dtype, shape) in plain.items():
        module, _, part = tensor.rpartition(".")
        linear = part == "weight" and len(shape) == 2
        if linear and kept_reason(preset, module, method) is None:
            found |= pack(module, *shape)
        else:
            found[tensor] = (dtype, shape)
    return found, {"quantization_config": config}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory):
    """Model and precision -> its pipeline; other components in one tensor each."""

    @cache
    def build(name: str, scheme: str) -> Path:
        weights = measured(name, "BF16", ONE, 1)[1]["memory"][0]["weights"]
        shape, folder = SHAPES[name], tmp_path_factory.mktemp("plan") / name.lower()
        pipeline, vae = CLASSES[name]
        define_missing()
        with torch.device("meta"):
            decoder = getattr(diffusers, vae)(**shape.vae)
        configs = {"text_encoder_2": {"num_heads": 32}, "vae": dict(decoder.config)}
        tensors, quantization = stored(name, scheme)
        for component, size in weights.items():
            if component.startswith("transformer"):
                save(folder / component, tensors, {**shape.transformer, **quantization})
            else:
                blob = {"layers.0.weight": ("BF16", (size // 2,))}
                save(folder / component, blob, dict(configs.get(component, {})))
        index = {"_class_name": pipeline, **shape.pipeline}
        (folder / "model_index.json").write_text(json.dumps(index))
        return folder

    return lambda name, scheme: build(name, scheme if scheme in PACKED else "BF16")


@pytest.mark.parametrize(("name", "scheme", "where", "in_flight"), CASES)
def test_what_the_device_held_is_within_three_percent_or_five_in_flight(
    folders, name: str, scheme: str, where: str, in_flight: int
) -> None:
    row, run = measured(name, scheme, where, in_flight)
    weights, layout = run["memory"][0]["weights"], LAYOUTS[where]
    drawn = {k: v for k, v in SHAPES[name].sampling.items() if k in wb.Sampling.model_fields}
    plan = wb.plan(
        str(folders(name, scheme)),
        gpus=layout.world_size,
        gpu_memory_gib=140,
        sampling=wb.Sampling(**drawn),
        quantization=scheme.lower() if scheme in ("FP8", "INT8") else None,
        max_num_seqs=in_flight,
        step_execution=run["spec"]["launch"]["step_execution"],
    ).layout(layout)
    planned = sum(sum(ranks) for name, ranks in plan.memory.items() if name in weights)
    held = row["reserved_peak_bytes"] / layout.world_size
    beside = SHARED if layout.world_size > 1 else CONTEXT
    assert planned == pytest.approx(row["weight_bytes"], rel=0.005)
    assert plan.needed == pytest.approx(held + beside, rel=0.03 if in_flight == 1 else 0.05)
