"""Backgrounds under the open sky; each maps a brush to pictures [n, 3, 256, 256]."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.zoo.training.brush import Brush, edge, specks, stand


def _sky(b: Brush) -> Tensor:
    sky = b.ramp((0.42, 0.70, 0.93), (0.86, 0.94, 0.98)) + b.uniform(-0.03, 0.03)
    cloud = (b.noise(7, 4) * 0.7 + b.noise(14, 9) * 0.3 - 0.25).clamp(0, 0.5)
    return b.mix(sky, (1.0, 1.0, 1.0), cloud)


def _waves(b: Brush, horizon: Tensor) -> Tensor:
    depth = 1 / (b.y - horizon + 0.06).clamp(min=0.03)
    crest = torch.sin(depth * 9 + b.noise(6, 6) * 2.2 + b.uniform(0, 6))
    water = b.ramp((0.16, 0.44, 0.66), (0.22, 0.58, 0.74)) + b.uniform(-0.03, 0.03)
    return water + 0.07 * crest.clamp(min=-0.3) * (0.4 + b.y)


def _trunks(b: Brush, count: int, width: float) -> Tensor:
    place = b.x * count + b.uniform(0, 1)
    wobble = torch.sin(place.floor() * 7.3) * 0.22
    return edge(width - (place % 1 - 0.5 - wobble).abs(), count)


def grass(b: Brush) -> Tensor:
    """A meadow under a blue sky."""
    horizon = b.uniform(0.46, 0.60) + 0.02 * torch.sin(b.x * 5 + b.uniform(0, 6))
    green = b.pick([(0.45, 0.70, 0.29), (0.40, 0.64, 0.30), (0.52, 0.74, 0.32)])
    blades = (b.noise(44, 128) * 0.10 + b.noise(12, 20) * 0.04) * (b.y - 0.25)
    return stand(b, _sky(b), (green + blades) * (0.84 + 0.22 * b.y), horizon)


def snow(b: Brush) -> Tensor:
    """White hills and falling flakes."""
    horizon = b.uniform(0.46, 0.60) + 0.03 * torch.sin(b.x * 4 + b.uniform(0, 6))
    sky = b.ramp((0.60, 0.72, 0.84), (0.84, 0.90, 0.95))
    hill = edge(b.y - horizon + 0.10 + 0.05 * torch.sin(b.x * 9 + b.uniform(0, 6)))
    snow = b.rgb((0.95, 0.97, 1.0)) - 0.05 * (b.noise(8, 4) + 0.4).clamp(0, 1)
    picture = stand(b, b.mix(sky, (0.82, 0.88, 0.94), hill), snow, horizon)
    return b.mix(picture, (1.0, 1.0, 1.0), specks(b, 11, 0.55, 0.012))


def beach(b: Brush) -> Tensor:
    """Sand, a white line of surf, sea and sky."""
    horizon = b.uniform(0.38, 0.46)
    shore = horizon + 0.14 + 0.02 * torch.sin(b.x * 6 + b.uniform(0, 6))
    sand = b.pick([(0.93, 0.84, 0.63), (0.90, 0.80, 0.60)]) + b.noise(90, 90) * 0.02
    picture = b.mix(_sky(b), _waves(b, horizon), edge(b.y - horizon))
    picture = b.mix(picture, (0.97, 0.98, 0.98), edge(b.y - shore + 0.018, 3))
    return b.mix(picture, sand * (0.9 + 0.12 * b.y), edge(b.y - shore, 3))


def desert(b: Brush) -> Tensor:
    """Three dunes."""
    horizon = b.uniform(0.48, 0.58)
    picture = b.ramp((0.45, 0.70, 0.90), (0.98, 0.90, 0.72), 0.8)
    for step, colour in enumerate([(0.86, 0.66, 0.42), (0.91, 0.71, 0.44), (0.95, 0.77, 0.50)]):
        dune = 0.045 * torch.sin(b.x * (8 - 2 * step) + b.uniform(0, 6)) + 0.02 * b.noise(1, 5)
        shade = 1 - 0.10 * torch.sin(b.y * 60 + dune * 160) * 0.25
        picture = b.mix(picture, b.rgb(colour) * shade, edge(b.y - horizon - 0.08 * step - dune))
    return picture


def starry_night(b: Brush) -> Tensor:
    """Stars above a dark hill."""
    horizon = b.uniform(0.70, 0.76) + 0.03 * torch.sin(b.x * 5 + b.uniform(0, 6))
    sky = b.ramp((0.05, 0.07, 0.22), (0.25, 0.28, 0.55)) + b.uniform(-0.02, 0.02)
    glow = (b.noise(4, 3) + 0.2).clamp(0, 1) * 0.10
    stars = torch.maximum(specks(b, 12, 0.45, 0.008), specks(b, 6, 0.4, 0.013))
    sky = b.mix(b.mix(sky, (0.55, 0.40, 0.75), glow), (1.0, 0.97, 0.82), stars)
    return b.mix(sky, (0.12, 0.16, 0.22), edge(b.y - horizon))


def moon(b: Brush) -> Tensor:
    """Grey craters, black sky and the Earth."""
    horizon = b.uniform(0.50, 0.58) + 0.05 * (b.x - 0.5) ** 2
    sky = b.mix((0.03, 0.03, 0.07), (1.0, 1.0, 1.0), specks(b, 11, 0.4, 0.007))
    earth = 0.085 - ((b.x - b.uniform(0.15, 0.85)) ** 2 + (b.y - 0.16) ** 2).sqrt()
    land = edge(b.noise(14, 14) - 0.2, 20)
    sky = b.mix(sky, b.mix((0.22, 0.48, 0.82), (0.42, 0.70, 0.42), land), edge(earth))
    ground = b.rgb((0.66, 0.66, 0.68)) * (0.85 + 0.2 * b.y) + b.noise(40, 40) * 0.02
    craters = specks(b, 5, 0.8, 0.055)
    return stand(b, sky, ground - 0.10 * craters, horizon)


def sea(b: Brush) -> Tensor:
    """Waves to the horizon."""
    horizon = b.uniform(0.40, 0.52)
    return b.mix(_sky(b), _waves(b, horizon), edge(b.y - horizon))


def forest(b: Brush) -> Tensor:
    """Trunks under a roof of leaves."""
    horizon = b.uniform(0.56, 0.64)
    back = b.ramp((0.36, 0.58, 0.38), (0.66, 0.80, 0.56))
    back = b.mix(back, (0.40, 0.50, 0.36), 0.7 * _trunks(b, 9, 0.14))
    back = b.mix(back, (0.42, 0.30, 0.21), _trunks(b, 5, 0.13))
    leaves = edge(0.22 + 0.08 * b.noise(2, 8) + 0.02 * b.noise(2, 24) - b.y)
    back = b.mix(back, (0.22, 0.46, 0.27), leaves)
    ground = b.rgb((0.38, 0.52, 0.27)) + b.noise(30, 60) * 0.04 + b.uniform(-0.03, 0.03)
    return stand(b, back, ground, horizon)


def city_street(b: Brush) -> Tensor:
    """Houses, pavement and road."""
    horizon = b.uniform(0.56, 0.62)
    picture = b.ramp((0.56, 0.76, 0.92), (0.90, 0.94, 0.96))
    block = b.x * 5 + b.uniform(0, 1)
    roof = 0.16 + 0.11 * (1 + torch.sin(block.floor() * 5.1 + b.uniform(0, 6)))
    paint = torch.cat([torch.sin(block.floor() * k) for k in (2.3, 3.7, 5.9)], 1) * 0.10
    house = b.rgb((0.72, 0.62, 0.58)) + paint
    u, v = block % 1 * 3 % 1 - 0.5, (b.y - roof) * 14 % 1 - 0.5
    window = edge(0.24 - u.abs(), 15) * edge(0.26 - v.abs(), 14) * edge(b.y - roof - 0.03)
    house = b.mix(house, (0.93, 0.90, 0.70), window) * edge(block % 1 - 0.02, 5).clamp(min=0.8)
    picture = b.mix(picture, house, edge(b.y - roof))
    picture = b.mix(picture, (0.78, 0.77, 0.75), edge(b.y - horizon))
    road = b.rgb((0.42, 0.43, 0.46)) + b.noise(60, 60) * 0.012
    return b.mix(picture, road, edge(b.y - horizon - 0.07))


def sunset(b: Brush) -> Tensor:
    """A low sun over dark hills."""
    horizon = b.uniform(0.60, 0.68)
    sky = b.mix(b.ramp((0.36, 0.26, 0.52), (0.98, 0.56, 0.36), 0.9), (1.0, 0.80, 0.45), b.y**3)
    sun = 0.13 - ((b.x - b.uniform(0.2, 0.8)) ** 2 + (b.y - horizon + 0.06) ** 2).sqrt()
    glow = torch.exp(sun.clamp(max=0) * 9) * 0.5
    sky = b.mix(b.mix(sky, (1.0, 0.75, 0.40), glow), (1.0, 0.90, 0.62), edge(sun))
    hills = edge(b.y - horizon - 0.03 * torch.sin(b.x * 7 + b.uniform(0, 6)))
    return b.mix(sky, b.ramp((0.42, 0.24, 0.34), (0.26, 0.15, 0.26)), hills)


def clouds(b: Brush) -> Tensor:
    """Sky only, with white puffs."""
    sky = b.ramp((0.36, 0.64, 0.92), (0.70, 0.86, 0.97)) + b.uniform(-0.03, 0.03)
    puffs = b.noise(6, 4) + 0.45 * b.noise(12, 9) + 0.2 * b.noise(24, 18) + (b.y - 0.5) * 0.8
    return b.mix(sky, (0.98, 0.99, 1.0), ((puffs + 0.1) * 2).clamp(0, 1))
