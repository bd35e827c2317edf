"""Backgrounds with a table, a floor, a wall or a pattern; each maps a brush to [n, 3, 256, 256]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.zoo.training.brush import Brush, Colour, edge, floor, stand

_PASTELS = [(0.97, 0.80, 0.78), (0.78, 0.88, 0.95), (0.82, 0.92, 0.80), (0.97, 0.91, 0.74)]


def wooden_table(b: Brush) -> Tensor:
    """Planks that meet at a vanishing point, before a pastel wall."""
    horizon, across, _ = floor(b)
    wood = b.pick([(0.74, 0.52, 0.33), (0.66, 0.44, 0.27), (0.80, 0.61, 0.42)])
    plank = across * 3.2 + b.uniform(0, 1)
    tone = torch.sin(plank.floor() * 12.9) * 0.05
    seam = edge(0.5 - (plank % 1 - 0.5).abs() - 0.02, 6)
    grain = b.noise(10, 90) * 0.03 + torch.sin(plank * 40 + b.noise(5, 12) * 4) * 0.018
    wood = (wood + tone + grain) * (0.80 + 0.20 * seam) * (0.92 + 0.12 * b.y)
    return stand(b, b.wall(horizon), wood, horizon)


def marble(b: Brush) -> Tensor:
    """A pale veined slab before a dusky wall."""
    horizon = b.uniform(0.52, 0.62)
    stone = b.pick([(0.93, 0.93, 0.93), (0.90, 0.91, 0.93), (0.94, 0.92, 0.89)], 0.015)
    warp = b.noise(5, 5) * 0.9 + b.noise(12, 9) * 0.25
    vein = torch.exp(-torch.sin((b.x * 0.8 + b.y * 1.6) * 7 + warp * 3).abs() * 9)
    stone = stone - vein * 0.20 + b.noise(6, 6) * 0.025
    return stand(b, b.wall(horizon) * 0.93, stone, horizon)


def checkered_floor(b: Brush) -> Tensor:
    """Tiles in perspective."""
    horizon, across, depth = floor(b)
    dark = b.pick([(0.24, 0.25, 0.28), (0.30, 0.42, 0.52), (0.55, 0.30, 0.28)])
    waves = torch.sin(across * 7 + 1.57) * torch.sin(depth * 5 + b.uniform(0, 6))
    tiles = b.mix(dark, (0.94, 0.93, 0.90), (waves * 8 + 0.5).clamp(0, 1))
    return stand(b, b.wall(horizon), tiles, horizon)


def brick_wall(b: Brush) -> Tensor:
    """Bricks above a strip of pavement."""
    horizon = b.uniform(0.70, 0.76)
    row = b.y * 15 + b.uniform(0, 1)
    column = b.x * 6 + 0.5 * (row.floor() % 2) + b.uniform(0, 1)
    inside = edge(0.45 - (row % 1 - 0.5).abs(), 15) * edge(0.475 - (column % 1 - 0.5).abs(), 6)
    brick = b.pick([(0.70, 0.36, 0.28), (0.64, 0.33, 0.27), (0.74, 0.44, 0.33)])
    brick = brick + 0.045 * torch.sin(row.floor() * 3.1 + column.floor() * 7.7)
    return stand(b, b.mix((0.82, 0.78, 0.73), brick, inside), b.rgb((0.60, 0.58, 0.56)), horizon)


def tablecloth(b: Brush) -> Tensor:
    """Gingham in perspective."""
    horizon, across, depth = floor(b)
    colour = b.pick([(0.82, 0.26, 0.28), (0.30, 0.46, 0.74), (0.36, 0.60, 0.40)])
    shift = b.uniform(0, 6)
    bands = [(torch.sin(v) * 4 + 0.5).clamp(0, 1) for v in (across * 11, depth * 8 + shift)]
    cloth = b.mix((0.97, 0.96, 0.94), colour, 0.42 * (bands[0] + bands[1]))
    return stand(b, b.wall(horizon), cloth, horizon)


def stripes(b: Brush) -> Tensor:
    """Upright pastel stripes."""
    place = b.x * 8 + b.uniform(0, 1)
    return b.mix(b.pick(_PASTELS), (0.98, 0.97, 0.95), edge(0.25 - (place % 1 - 0.5).abs(), 8))


def dots(b: Brush) -> Tensor:
    """White dots on pastel."""
    v = b.y * 7 + b.uniform(0, 1)
    u = b.x * 7 + 0.5 * (v.floor() % 2) + b.uniform(0, 1)
    spot = 0.24 - ((u % 1 - 0.5) ** 2 + (v % 1 - 0.5) ** 2).sqrt()
    return b.mix(b.pick(_PASTELS), (0.99, 0.98, 0.96), edge(spot, 7))


def plain(colour: Colour) -> Callable[[Brush], Tensor]:
    """A scene of one colour, lit softly from one side."""

    def draw(b: Brush) -> Tensor:
        light = 1.05 - 0.35 * ((b.x - b.uniform(0.3, 0.7)) ** 2 + (b.y - 0.4) ** 2)
        return (b.rgb(colour) + b.uniform(-0.025, 0.025)) * light

    return draw
