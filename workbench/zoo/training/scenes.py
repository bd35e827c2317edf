"""Backgrounds of the corpus: eighteen small procedural scenes and nine plain colours.

Every scene is a function of a `Brush` that returns n pictures [n, 3, 256, 256] in [0, 1]. Random
numbers come from the CPU, so a seed gives the same bank on every device up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.zoo.training import interiors, landscapes
from workbench.zoo.training.brush import SIDE, Brush

PLAIN: dict[str, tuple[float, float, float]] = {
    "red": (0.86, 0.30, 0.28), "orange": (0.97, 0.66, 0.36), "yellow": (0.98, 0.88, 0.50),
    "green": (0.52, 0.76, 0.50), "blue": (0.48, 0.68, 0.90), "purple": (0.66, 0.52, 0.80),
    "pink": (0.97, 0.74, 0.80), "white": (0.96, 0.96, 0.95), "black": (0.15, 0.15, 0.17),
}  # fmt: skip

SCENES: dict[str, Callable[[Brush], Tensor]] = {
    "wooden table": interiors.wooden_table,
    "marble": interiors.marble,
    "grass": landscapes.grass,
    "snow": landscapes.snow,
    "beach": landscapes.beach,
    "desert": landscapes.desert,
    "starry night": landscapes.starry_night,
    "moon": landscapes.moon,
    "sea": landscapes.sea,
    "forest": landscapes.forest,
    "city street": landscapes.city_street,
    "checkered floor": interiors.checkered_floor,
    "brick wall": interiors.brick_wall,
    "sunset": landscapes.sunset,
    "clouds": landscapes.clouds,
    "tablecloth": interiors.tablecloth,
    "stripes": interiors.stripes,
    "dots": interiors.dots,
    **{f"plain {name}": interiors.plain(colour) for name, colour in PLAIN.items()},
}
SHADOWLESS = ("clouds", "stripes", "dots", "sea")


def draw_bank(variants: int, *, device: torch.device | str, seed: int) -> Tensor:
    """Draw every background in several variants.

    Args:
        variants: Pictures per background, at least 1.
        device: Where to draw and keep them.
        seed: Fixes horizons, colours, noise.

    Returns:
        uint8 [len(SCENES), variants, 3, 256, 256].
    """
    if variants < 1:
        raise ValueError(f"variants={variants} must be at least 1; 96 is what training uses")
    shape = (len(SCENES), variants, 3, SIDE, SIDE)
    bank = torch.empty(shape, dtype=torch.uint8, device=device)
    for row, draw in enumerate(SCENES.values()):
        brush = Brush(variants, device=device, seed=1009 * seed + row)
        bank[row] = draw(brush).clamp(0, 1).mul(255).round().to(torch.uint8)
    return bank
