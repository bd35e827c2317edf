"""How things move: paths of nine frames, and what they are called.

All positions are multiples of four pixels, and from one latent frame to the next (four frames) an
object moves by whole tokens (16 pixels) or stays, so that it meets the same patches again.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.zoo.training.video.recipe import FRAMES

SLOW, FAST = 4, 8
"""Pixels per frame."""

STANDARD = 48
SIZES = tuple(range(32, 68, 4))
"""Drawn side in pixels; index = a frame's size. A thing is 48 wide unless it comes or goes."""

FLOORS = (96, 112)
"""Rows, from the top, that things stand on: below every scene's horizon."""


@dataclass(frozen=True, slots=True)
class Motion:
    """One way of moving.

    Attributes:
        name: As in reports.
        step: Pixels per frame to the right and downwards, at speed 1.
        growth: Pixels that the side gains per frame.
        lefts: Where the left edge may be at the middle frame.
        floors: Where the lowest edge may be at its lowest.
        speeds: Pixels per frame that are drawn, each with its adverbs in `sentences`.
        verbs: What it is called, without a place or an adverb.
    """

    name: str
    step: tuple[int, int]
    growth: int
    lefts: tuple[int, ...]
    floors: tuple[int, ...]
    speeds: tuple[int, ...]
    verbs: tuple[str, ...]


_SPEEDS = (SLOW, FAST)
_CENTRED, _ANYWHERE = (32, 48), (16, 32, 48, 64)
MOTIONS: tuple[Motion, ...] = (
    Motion(
        "right", (1, 0), 0, _CENTRED, FLOORS, _SPEEDS,
        ("moving to the right", "rolling to the right", "sliding to the right", "moving right",
         "going to the right", "flying to the right", "moving from left to right"),
    ),
    Motion(
        "left", (-1, 0), 0, _CENTRED, FLOORS, _SPEEDS,
        ("moving to the left", "rolling to the left", "sliding to the left", "moving left",
         "going to the left", "flying to the left", "moving from right to left"),
    ),
    Motion(
        "up", (0, -1), 0, _ANYWHERE, FLOORS[1:], _SPEEDS,
        ("rising", "moving up", "flying up", "going up", "floating up", "jumping up"),
    ),
    Motion(
        "down", (0, 1), 0, _ANYWHERE, FLOORS[1:], _SPEEDS,
        ("falling", "moving down", "falling down", "going down", "sinking", "dropping"),
    ),
    Motion(
        "still", (0, 0), 0, _ANYWHERE, FLOORS, (0,),
        ("standing still", "not moving", "resting", "standing", ""),
    ),
    Motion(
        "closer", (0, 0), 4, _CENTRED, FLOORS, (0,),
        ("coming closer", "approaching", "growing", "getting bigger"),
    ),
    Motion(
        "away", (0, 0), -4, _CENTRED, FLOORS, (0,),
        ("going away", "moving away", "shrinking", "getting smaller"),
    ),
)  # fmt: skip
NAMES = tuple(motion.name for motion in MOTIONS)


@functools.cache
def _tables(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Steps [M, 2], growth [M] and frame times [FRAMES] around the middle frame."""
    steps = torch.tensor([motion.step for motion in MOTIONS], device=device)
    growth = torch.tensor([motion.growth for motion in MOTIONS], device=device)
    return steps, growth, torch.arange(FRAMES, device=device) - FRAMES // 2


def paths(motion: Tensor, speed: Tensor, left: Tensor, floor: Tensor) -> Tensor:
    """Where a thing is in every frame.

    Args:
        motion: int64 [n], index into `MOTIONS`.
        speed: int64 [n], pixels per frame, one of the motion's speeds.
        left: int64 [n], left edge in the middle frame, one of the motion's lefts.
        floor: int64 [n], row of the lowest edge: of the lowest frame for things that rise or fall.

    Returns:
        int64 [n, FRAMES, 3]: index into `SIZES`, left edge, row below the lowest pixel. Things
        grow and shrink around their middle, standing on the floor.
    """
    steps, growth, time = _tables(motion.device)
    moved = (steps[motion] * speed[:, None])[:, None] * time[:, None]
    side = STANDARD + growth[motion][:, None] * time
    x = left[:, None] + moved[..., 0] + (STANDARD - side) // 2
    y = floor[:, None] + moved[..., 1] - moved[..., 1].amax(1, keepdim=True)
    return torch.stack([(side - SIZES[0]) // 4, x, y], -1)
