"""One optimiser for all stages: AdamW and Muon, schedule, clipping, averages, CUDA graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.zoo.training.muon import Muon

BETAS = (0.9, 0.98)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Peak learning rates; linear warm-up, then a cosine down to `floor` times the peak."""

    steps: int
    rate: float
    decay: float = 0.0
    muon_rate: float = 0.0
    muon_decay: float = 0.0
    warmup: int = 0
    floor: float = 0.01
    ema: float = 0.998

    def factor(self, step: Tensor) -> Tensor:
        """Share of the peak at `step` (0-dim, counted from 0)."""
        warm = ((step + 1) / max(self.warmup, 1)).clamp(max=1)
        progress = (step / self.steps).clamp(max=1)
        return warm * (self.floor + (1 - self.floor) * (1 + torch.cos(math.pi * progress)) / 2)


class Optimizer:
    """Steps the trainable parameters of a model and keeps their exponential average.

    Every quantity that changes lives on the device, so a step can be captured in a CUDA graph.

    Args:
        model: Its parameters that require a gradient are trained.
        rates: Rates and schedule.
        muon: Says, by name and value, which parameters go to Muon; the others go to AdamW.
    """

    def __init__(self, model: nn.Module, rates: Rates, muon: Callable[[str, Tensor], bool]) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.model, self.rates, self.names = model, rates, list(named)
        self.parameters = list(named.values())
        device = self.parameters[0].device
        self.taken = torch.zeros((), device=device)
        self.muon_rate = torch.zeros((), device=device)
        self.by_muon = [muon(name, p) for name, p in named.items()]
        self.rest = self._pick(self.parameters, False)
        self.adam = torch.optim.AdamW(
            self.rest,
            torch.zeros((), device=device),
            BETAS,
            weight_decay=rates.decay,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.rate: Tensor = self.adam.param_groups[0]["lr"]
        orthogonal = self._pick(self.parameters, True)
        self.muon = Muon(orthogonal, self.muon_rate, rates.muon_decay) if orthogonal else None
        self.average = [p.detach().clone() for p in self.parameters]

    def _pick(self, values: list[Tensor], by_muon: bool) -> list[Tensor]:
        return [value for value, flag in zip(values, self.by_muon, strict=True) if flag == by_muon]

    def step(self, loss: Tensor) -> None:
        """Differentiate a scalar loss and take one step."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        factor = self.rates.factor(self.taken)
        self.rate.copy_(self.rates.rate * factor)
        self.muon_rate.copy_(self.rates.muon_rate * factor)
        for parameter, gradient in zip(self.rest, self._pick(gradients, False), strict=True):
            parameter.grad = _in_layout_of(parameter, gradient)
        nn.utils.clip_grad_norm_(self.rest, 1.0)
        self.adam.step()
        if self.muon:
            self.muon.step(self._pick(gradients, True))
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.parameters, 1 - self.rates.ema)
        self.taken.add_(1)

    def averaged(self) -> dict[str, Tensor]:
        """The model's state dict with averaged weights."""
        state = {name: value.detach() for name, value in self.model.state_dict().items()}
        return state | dict(zip(self.names, self.average, strict=True))


def _in_layout_of(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Fused AdamW walks raw memory, and `torch.autograd.grad` promises no particular strides."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def captured(step: Callable[[], None], device: torch.device, warmup: int = 3) -> Callable[[], None]:
    """Take `warmup` real steps, which compile and allocate, and return `step` as a CUDA graph.

    On a CPU `step` itself is returned.
    """
    if device.type != "cuda":
        for _ in range(warmup):
            step()
        return step
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmup):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def mixed_precision(device: torch.device) -> torch.autocast:
    """Activations in bf16 on a GPU, fp32 on a CPU; no cached casts, which outlive a CUDA graph."""
    return torch.autocast(
        device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False
    )


def choose_kernels() -> None:
    """TF32 where fp32 is multiplied, timed convolutions, and room for a compilation a shape."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 4
    torch._dynamo.config.recompile_limit = 64
