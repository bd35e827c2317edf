"""Memory and time of AutoRound's work, told before it begins.

Memory counts weights, the block inputs that calibration keeps, and the tuning of one block; time
counts multiplications and weights rounded, at the rates of a short GEMM and of a short rounding
with its gradient, both measured on this device. For planning, not for comparing.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import NotSupportedHere
from workbench.quant.calls import call_arguments
from workbench.quant.plan import Plan
from workbench.recipes import QuantRecipe
from workbench.zoo.component_configs import pixels_of_a_patch, vae_of
from workbench.zoo.families import Family
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.weights import weight_bytes

LOG = logging.getLogger(__name__)
GIB = 1 << 30
_TOKENS_PER_WORD = 1.5
_TEMPLATE_TOKENS = 8
_BACKWARD = 3.0
"""Multiplications of a forward and a backward pass over those of a forward pass."""
_COPIES = 4
"""Sets of block inputs at once: the block's own and quantized ones, and the outputs of either."""
_TUNED = 20
"""Bytes a weight of the block in tuning: float32 rounding, its gradient, best so far, graph."""
_START_S = 15.0  # imports and loading of a small pipeline: 8 s and 20 s on two machines
_LIBRARIES = GIB // 2
"""Memory of the imported libraries themselves."""
_RTN_RATE = {"cpu": 2e7, "gpu": 8e7}
"""Weights a second that AutoRound reads, rounds and packs: one core; FLUX.1-dev on an H200."""
_SLACK = 0.9
"""Share of the free memory that an estimate may claim before it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the work will take."""

    memory_bytes: int
    """Peak of this process: weights, kept activations and tuning."""
    seconds: float
    passes: int
    """Times that each transformer runs in calibration."""
    device: str

    def __str__(self) -> str:
        return (
            f"about {self.seconds / 60:.1f} min and {self.memory_bytes / GIB:.1f} GiB on the "
            f"{self.device}, {self.passes} calibration passes of each transformer"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Tokens of one pass, and how often it is made."""

    image: int
    text: int
    passes: int


def announce(source: Path, recipe: QuantRecipe, plan: Plan) -> Estimate:
    """Log an estimate, and refuse what clearly does not fit.

    Args:
        source: Pipeline in diffusers layout.
        recipe: One of AutoRound's.
        plan: Its layers.

    Raises:
        NotSupportedHere: more memory than is free; names both.
    """
    found = estimate(source, recipe, plan)
    LOG.info("%s of %s: %s", recipe.label, source.name, found)
    free = free_bytes()
    if found.memory_bytes * _SLACK > free:
        raise NotSupportedHere(
            f"{recipe.label} of {source.name} takes about {found.memory_bytes / GIB:.1f} GiB, and "
            f"{free / GIB:.1f} GiB are free on the {found.device}; use fewer prompts or "
            "num_inference_steps, a smaller height and width, iters=0 with disable_opt_rtn, or a "
            "larger machine"
        )
    return found


def estimate(source: Path, recipe: QuantRecipe, plan: Plan) -> Estimate:
    """What AutoRound will take for a recipe, from names, shapes and a GEMM of a tenth of a second.

    Args:
        source: Pipeline in diffusers layout.
        recipe: One of AutoRound's.
        plan: Its layers.
    """
    import torch

    device = "gpu" if torch.cuda.is_available() else "cpu"
    stored = {name: linears(source / name) for name in plan.layers}
    weights = _LIBRARIES + sum(weight_bytes(source).values()) * (1 if device == "gpu" else 2)
    packed = sum(stored[c][n].parameters for c, layers in plan.layers.items() for n in layers)
    if not recipe.needs_data:
        seconds = _START_S + packed / _RTN_RATE[device]
        return Estimate(memory_bytes=weights, seconds=seconds, passes=0, device=device)
    load = _load(source, recipe, plan)
    work = rounded = kept = largest = 0.0
    for component, names in stored.items():
        blocks = _blocks(names, plan)
        forward = sum(_work(parts, load) for parts in blocks.values())
        work += len(stored) * load.passes * forward  # the whole pipeline runs for each of them
        work += 2 * load.passes * forward  # of the blocks: as they were, and quantized
        for parts in blocks.values():
            size = sum(one.parameters for one in parts.values())
            steps = recipe.iters * recipe.gradient_accumulate_steps
            work += steps * _BACKWARD * _work(parts, load)
            rounded += steps * size
            largest = max(largest, size)
        width = _width(source / component)
        kept = max(kept, _COPIES * load.passes * (load.image + load.text) * width * 4.0)
    memory = weights + kept + (_TUNED * largest if recipe.iters else 0)
    return Estimate(
        memory_bytes=int(memory),
        seconds=_START_S
        + packed / _RTN_RATE[device]
        + 2 * work / gemm_rate()
        + rounded / rounding_rate(),
        passes=load.passes,
        device=device,
    )


def gemm_rate(seconds: float = 0.1) -> float:
    """Floating-point operations a second of a 1024 x 1024 x 1024 product in the dtype of the work.

    Args:
        seconds: For how long to measure.
    """
    import torch

    cuda = torch.cuda.is_available()
    where = {"device": "cuda", "dtype": torch.bfloat16} if cuda else {"dtype": torch.float32}
    one = torch.ones(1024, 1024, **where)
    one @ one
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        one @ one
        if cuda:
            torch.cuda.synchronize()
        done += 1
    return 2 * 1024**3 * done / (time.perf_counter() - began)


def rounding_rate(seconds: float = 0.1) -> float:
    """Weights a second that are rounded in groups of 128, with the gradient and a signed step.

    Args:
        seconds: For how long to measure.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    weight = torch.linspace(-1, 1, 1 << 20, device=device).reshape(-1, 128)
    offset = torch.zeros_like(weight, requires_grad=True)
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        scale = weight.abs().amax(dim=1, keepdim=True) / 8
        exact = weight / scale + offset
        near = exact + (exact.round() - exact).detach()
        ((near.clamp(-8, 7) * scale - weight) ** 2).mean().backward()
        with torch.no_grad():
            offset -= 1e-3 * offset.grad.sign()
        offset.grad = None
        if device == "cuda":
            torch.cuda.synchronize()
        done += 1
    return weight.numel() * done / (time.perf_counter() - began)


def free_bytes() -> int:
    """Free memory of the device that AutoRound would use; of the machine on a CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0]
    import psutil

    return psutil.virtual_memory().available


def _load(source: Path, recipe: QuantRecipe, plan: Plan) -> _Load:
    calibration, family = recipe.calibration, plan.family
    call = call_arguments(source, calibration, family.guidance)
    frames = 1 + ((call.get("num_frames") or 1) - 1) // vae_of(source / "vae").temporal
    image = call["height"] * call["width"] // pixels_of_a_patch(source) ** 2 * frames
    guided = call[family.guidance] > 1 and "negative_prompt" in call
    steps = calibration.num_inference_steps * (2 if guided else 1)
    # Experts share the schedule, so that each sees a part of the steps.
    passes = len(calibration.prompts) * max(1, steps // len(plan.layers))
    return _Load(image=image, text=_text_tokens(family, calibration.prompts), passes=passes)


def _text_tokens(family: Family, prompts: Sequence[str]) -> int:
    """Those of a padded prompt, or as many as the prompts have on average."""
    if family.pads_prompts and family.prompt_tokens:
        return family.prompt_tokens
    words = sum(len(prompt.split()) for prompt in prompts) / len(prompts)
    return int(_TEMPLATE_TOKENS + _TOKENS_PER_WORD * words)


def _blocks(found: Mapping[str, StoredLinear], plan: Plan) -> dict[str, dict[str, StoredLinear]]:
    """Linears by the block that they belong to."""
    blocks: dict[str, dict[str, StoredLinear]] = {}
    for name, linear in found.items():
        if name.startswith(tuple(f"{block}." for block in plan.preset.blocks)):
            blocks.setdefault(".".join(name.split(".")[:2]), {})[name] = linear
    return blocks


def _work(parts: Mapping[str, StoredLinear], load: _Load) -> float:
    """Multiply-adds of one pass through the linears of a block."""
    return float(sum(one.parameters * _tokens(name, load) for name, one in parts.items()))


def _tokens(name: str, load: _Load) -> int:
    """Tokens that pass a linear, told by its name."""
    if "_mod." in name or "norm" in name:
        return 1
    if any(part in name for part in ("txt_", "add_", "_context", "attn2.to_k", "attn2.to_v")):
        return load.text
    return load.image + (load.text if name.startswith("single") else 0)


def _width(component: Path) -> int:
    config = json.loads((component / "config.json").read_text())
    return config["num_attention_heads"] * config["attention_head_dim"]
