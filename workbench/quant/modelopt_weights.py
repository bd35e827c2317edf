"""The files of a quantized component: each planned weight packed, all else as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from workbench import store
from workbench.errors import QuantizationFailed
from workbench.quant.modelopt_export import quantization_config, runs_in_16_bit
from workbench.quant.shards import Reader, rewrite
from workbench.zoo.inventory import linears
from workbench.zoo.names import siblings, stored_name
from workbench.zoo.presets import Preset
from workbench.zoo.weights import TensorFacts, tensors

Packer = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""(float32 weight [out, in], its largest absolute value, [] or [out]) -> tensors to store."""
INPUT_RANGE = {"FP8": 448.0, "NVFP4": 6.0 * 448.0}
"""Largest value of a format, times that of its block scales; of schemes that store input_scale."""
_TINY = 2.0**-100  # an all-zero weight or row still needs a scale above zero


def write_component(
    source: Path,
    output: Path,
    layers: Mapping[str, str],
    preset: Preset,
    *,
    packers: Mapping[str, Packer],
    inputs: Mapping[str, float],
) -> None:
    """Write the weight files of a component, and its quantization entry.

    Args:
        source: Component folder of the 16-bit model.
        output: Created; gets files of the same names and a config.json.
        layers: Linear -> scheme; all else is copied as it is.
        preset: The family's.
        packers: Scheme -> function that packs one weight.
        inputs: Largest absolute input of each linear whose scheme stores it.

    Raises:
        QuantizationFailed: a weight or a scale is not finite, or a scale is zero.
    """
    output.mkdir(parents=True)
    with ExitStack() as stack:
        reader = Reader(stack)
        packing = _Packing(layers, preset, packers, inputs, reader, tensors(source))
        rewrite(source, output, packing)
    entry = quantization_config(preset, layers, linears(source))
    store.write_json(output / "config.json", {"quantization_config": entry})


@dataclass
class _Packing:
    layers: Mapping[str, str]
    preset: Preset
    packers: Mapping[str, Packer]
    inputs: Mapping[str, float]
    read: Reader
    facts: Mapping[str, TensorFacts]
    ranges: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    device: str = "cuda" if torch.cuda.is_available() else "cpu"

    def __call__(self, name: str, tensor: Tensor) -> dict[str, Tensor]:
        """Replace a planned weight; rename what lies beside it."""
        linear, _, part = name.rpartition(".")
        if linear not in self.layers:
            return {name: tensor}
        own = stored_name(self.preset, linear)
        if part != "weight":
            return {f"{own}.{part}": tensor}
        parts = self._packed(linear, tensor.to(self.device).float())
        return {f"{own}.{part}": value.cpu() for part, value in parts.items()}

    def _packed(self, linear: str, weight: Tensor) -> dict[str, Tensor]:
        scheme = self.layers[linear]
        parts = self.packers[scheme](weight, self._range(linear, weight, scheme))
        if scheme in INPUT_RANGE:
            amax = max(self.inputs[one] for one in self._group(linear))
            parts["input_scale"] = torch.tensor(amax / INPUT_RANGE[scheme], dtype=torch.float32)
        for part, value in parts.items():
            if part != "weight" and not _sound(value):
                raise QuantizationFailed(
                    f"{part} of {linear} came out zero or not finite; its largest weight is "
                    f"{float(weight.abs().max())}, its largest input {self.inputs.get(linear)}"
                )
        return parts

    def _group(self, linear: str) -> tuple[str, ...]:
        return tuple(one for one in siblings(self.preset, linear) if one in self.layers)

    def _range(self, linear: str, weight: Tensor, scheme: str) -> Tensor:
        """Largest absolute value: of each row, or of all weights that the engine fuses."""
        if scheme == "FP8_PER_CHANNEL_PER_TOKEN":
            amax = weight.abs().amax(1)
        else:
            amax = self._of_group(self._group(linear))
        amax = amax.clamp_min(_TINY)
        return _rounded_up(amax) if runs_in_16_bit(self.preset, linear) else amax

    def _of_group(self, group: tuple[str, ...]) -> Tensor:
        if group not in self.ranges:
            names = [f"{linear}.weight" for linear in group]
            amaxes = [
                self.read(self.facts[name], name).to(self.device).abs().max() for name in names
            ]
            self.ranges[group] = torch.stack(amaxes).max().float()
        return self.ranges[group]


def _rounded_up(amax: Tensor) -> Tensor:
    """The least amax above, of which a 448th is a bfloat16: the engine dequantizes with that."""
    scale = amax / 448
    near = scale.bfloat16()
    above = torch.nextafter(near, torch.full_like(near, float("inf")))
    return torch.where(near.float() < scale, above, near).float() * 448


def _sound(scale: Tensor) -> bool:
    if scale.dtype == torch.uint8:  # E8M0: 255 is not a number
        return bool((scale != 255).all())
    values = scale.float()
    return bool(torch.isfinite(values).all() and (values > 0).all())
