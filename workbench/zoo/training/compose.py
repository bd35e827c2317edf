"""Paste sprites onto backgrounds, a whole batch at once and without waiting for the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.zoo.training.scenes import SCENES, SHADOWLESS

# A tint maps luminance to dark, middle and light of one colour.
RAMPS: dict[str, tuple[str, str, str]] = {
    "red": ("4a0d10", "d8322f", "ffc4b8"), "orange": ("5a2606", "f08a1d", "ffe2b0"),
    "yellow": ("5c4504", "f3cd2a", "fff7c4"), "green": ("0d3716", "3ba249", "cdf3c4"),
    "blue": ("0c1f52", "2f6fd8", "c6e1ff"), "purple": ("2c0f4a", "8a43bd", "e7ccf9"),
    "pink": ("6d1a41", "f27fb0", "ffe0ec"), "white": ("7d8088", "dcdee2", "ffffff"),
    "black": ("08080a", "36373c", "a4a7ae"),
}  # fmt: skip
_SHADOW = 0.40


class Composer:
    """Turns specs into pictures.

    Sprites are kept in every size as one table of pixels (red, green, blue, opacity, tone), so a
    paste is a single lookup per pixel; tone is the luminance that tints are applied to.
    """

    def __init__(
        self, sprites: np.ndarray, ground: np.ndarray, bank: Tensor, *,
        sizes: Sequence[int], colours: Sequence[str],
    ) -> None:  # fmt: skip
        """Prepare the tables.

        Args:
            sprites: uint8 [K, 128, 128, 4], RGBA.
            ground: bool [K], which sprites cast a shadow.
            bank: uint8 [backgrounds, variants, 3, S, S]; its device is used.
            sizes: Drawn side in pixels per size index.
            colours: Tints 1, 2, ... by name, keys of `RAMPS`.
        """
        device, self._bank = bank.device, bank
        self._canvas, self._line = (max(sizes), torch.arange(bank.shape[-1], device=device))
        rgba = torch.from_numpy(sprites).to(device).float().permute(0, 3, 1, 2) / 255
        tables = [_padded(_resized(rgba, side), self._canvas) for side in sizes]
        self._pixels = torch.stack(tables).movedim(2, -1).contiguous().flatten(0, -2)
        self._sizes, self._kinds = torch.tensor(sizes, device=device), len(sprites)
        self._feet = _feet(rgba)
        lit = torch.tensor([name not in SHADOWLESS for name in SCENES], device=device)
        self._shadow = torch.from_numpy(ground).to(device)[:, None] * lit * _SHADOW
        table = [[_rgb(h) for h in RAMPS[name]] for name in colours]
        self._ramps = torch.tensor([[(0.0,) * 3] * 3, *table], device=device)

    def __call__(self, spec: Mapping[str, Tensor]) -> Tensor:
        """Columns of int64 [B] by field name to float32 [B, 3, S, S] in [-1, 1].

        A second object is drawn where the spec has one; `floor` is where the shadow lies, which
        is under the object, at `bottom`, where the spec does not say.
        """
        variant = spec["variant"] % self._bank.shape[1]
        picture = self._bank[spec["background"], variant].float() / 255
        picture = self._paste(picture, spec, "object", "colour", "left")
        if "object2" in spec:
            picture = self._paste(picture, spec, "object2", "colour2", "left2")
        return picture * 2 - 1

    def _paste(
        self, picture: Tensor, spec: Mapping[str, Tensor], thing: str, colour: str, left: str
    ) -> Tensor:
        """Shadow and object over the picture; an object of -1 changes nothing."""
        there = (spec[thing] >= 0).view(-1, 1, 1, 1)
        index, tint = spec[thing].clamp(min=0), spec[colour]
        shade = self._shade(spec, index, spec[left]) * there
        pixels = self._lookup(spec, index, spec[left])
        rgb, opacity, tone = pixels[:, :3], pixels[:, 3:4] * there, pixels[:, 4:]
        rgb = torch.where((tint > 0).view(-1, 1, 1, 1), self._tinted(tone, tint), rgb)
        return torch.lerp(picture * (1 - shade), rgb, opacity)

    def _lookup(self, spec: Mapping[str, Tensor], index: Tensor, left: Tensor) -> Tensor:
        """Sprite pixels [B, 5, S, S] in place, zero outside the sprite."""
        top = spec["bottom"] - self._canvas
        v, u = self._line - top[:, None], self._line - left[:, None]
        rows = (spec["size"] * self._kinds + index)[:, None] * self._canvas
        inside = [(w >= 0) & (w < self._canvas) for w in (v, u)]
        v, u = (w.clamp(0, self._canvas - 1) for w in (v, u))
        at = ((rows + v) * self._canvas)[:, :, None] + u[:, None, :]
        mask = inside[0][:, None, :, None] & inside[1][:, None, None, :]
        return self._pixels[at].movedim(-1, 1).float() / 255 * mask

    def _tinted(self, tone: Tensor, tint: Tensor) -> Tensor:
        """Tone [B, 1, S, S] through the ramps of the tints [B]: [B, 3, S, S]."""
        dark, middle, light = self._ramps[tint].unsqueeze(-1).unsqueeze(-1).unbind(1)
        low = torch.lerp(dark, middle, (2 * tone).clamp(max=1))
        return torch.lerp(low, light, (2 * tone - 1).clamp(min=0))

    def _shade(self, spec: Mapping[str, Tensor], index: Tensor, left: Tensor) -> Tensor:
        """Soft ellipse [B, 1, S, S] under the object's feet."""
        side, feet = self._sizes[spec["size"]].float(), self._feet[index]
        x = self._line - (left + side * feet[:, 0])[:, None]
        y = self._line - (spec.get("floor", spec["bottom"]) - 0.01 * side)[:, None]
        far = (x / (side * feet[:, 1] + 4)[:, None]) ** 2
        deep = (y / (0.045 * side)[:, None]) ** 2
        strength = self._shadow[index, spec["background"]].view(-1, 1, 1, 1)
        return strength * torch.exp(-(far[:, None, None, :] + deep[:, None, :, None]))


def _resized(rgba: Tensor, side: int) -> Tensor:
    """[K, 4, h, h] in [0, 1] to [K, 5, side, side] with tone; resized premultiplied."""
    colour = torch.cat([rgba[:, :3] * rgba[:, 3:], rgba[:, 3:]], 1)
    colour = F.interpolate(colour, (side, side), mode="bicubic", antialias=True).clamp(0, 1)
    rgb, opacity = ((colour[:, :3] / colour[:, 3:].clamp(min=1 / 255)).clamp(0, 1), colour[:, 3:])
    return torch.cat([rgb, opacity, _tone(rgb, opacity)], 1)


def _tone(rgb: Tensor, opacity: Tensor) -> Tensor:
    """Luminance [K, 1, h, w] moved to mean 0.5, so dark and light things take the same tint."""
    weights = torch.tensor([0.299, 0.587, 0.114], device=rgb.device).view(1, 3, 1, 1)
    luminance = (rgb * weights).sum(1, keepdim=True)
    mean = (luminance * opacity).sum((2, 3), keepdim=True) / opacity.sum((2, 3), keepdim=True)
    return (0.5 + 0.9 * (luminance - mean)).clamp(0, 1)


def _padded(table: Tensor, canvas: int) -> Tensor:
    """Bottom-left in a square canvas, as uint8."""
    gap = canvas - table.shape[-1]
    return (F.pad(table, (0, gap, gap, 0)) * 255).round().to(torch.uint8)


def _feet(rgba: Tensor) -> Tensor:
    """Centre and half width [K, 2], in parts of the side, of each sprite's lowest sixth."""
    low = rgba[:, 3, -rgba.shape[2] // 6 :].amax(1)
    place = (torch.arange(low.shape[1], device=low.device) + 0.5) / low.shape[1]
    centre = (low * place).sum(1) / low.sum(1)
    return torch.stack([centre, 0.5 * low.mean(1)], 1)


def _rgb(code: str) -> tuple[float, ...]:
    return tuple(int(code[i : i + 2], 16) / 255 for i in (0, 2, 4))
