"""Random numbers, coordinates and blending for many procedural pictures at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 256
Colour = Sequence[float] | Tensor
_WALLS = [(0.93, 0.88, 0.79), (0.80, 0.87, 0.88), (0.84, 0.88, 0.78), (0.92, 0.82, 0.78)]


class Brush:
    """Random numbers, coordinates and blending for n pictures at once.

    Attributes:
        x: [1, 1, 1, 256], 0 at the left, 1 at the right.
        y: [1, 1, 256, 1], 0 at the top, 1 at the bottom.
    """

    def __init__(self, n: int, *, device: torch.device | str, seed: int) -> None:
        """Make a brush for n pictures; the seed fixes everything drawn with it."""
        self.n, self.device = n, device
        self._generator = torch.Generator().manual_seed(seed)
        line = (torch.arange(SIDE, device=device) + 0.5) / SIDE
        self.x, self.y = line.view(1, 1, 1, -1), line.view(1, 1, -1, 1)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers [n, *shape], or [n, 1, 1, 1] without a shape."""
        drawn = torch.rand(self.n, *(shape or (1, 1, 1)), generator=self._generator)
        return (low + (high - low) * drawn).to(self.device)

    def noise(self, rows: int, columns: int) -> Tensor:
        """Smooth noise [n, 1, 256, 256] in about [-1, 1] with rows x columns features."""
        small = self.uniform(-1, 1, 1, rows, columns)
        return F.interpolate(small, (SIDE, SIDE), mode="bicubic", align_corners=False)

    def pick(self, colours: Sequence[Colour], jitter: float = 0.03) -> Tensor:
        """One of the colours per picture, slightly varied: [n, 3, 1, 1]."""
        table = torch.tensor(colours, device=self.device)
        index = self.uniform(0, len(colours), 1).long().clamp(max=len(colours) - 1)
        return table[index[:, 0]].view(-1, 3, 1, 1) + self.uniform(-jitter, jitter, 3, 1, 1)

    def ramp(self, top: Colour, bottom: Colour, power: float = 1.0) -> Tensor:
        """Vertical gradient [n or 1, 3, 256, 1]."""
        return self.mix(self.rgb(top), self.rgb(bottom), self.y**power)

    def rgb(self, colour: Colour) -> Tensor:
        """Three floats as [1, 3, 1, 1]; tensors pass unchanged."""
        if isinstance(colour, Tensor):
            return colour
        return torch.tensor(colour, device=self.device).view(1, 3, 1, 1)

    def mix(self, under: Colour, over: Colour, mask: Tensor) -> Tensor:
        """Paint `over` where the mask is 1 and keep `under` where it is 0."""
        under = self.rgb(under)
        return under + (self.rgb(over) - under) * mask

    def wall(self, horizon: Tensor) -> Tensor:
        """A pastel wall that darkens softly towards the horizon [n, 1, 1, 1]."""
        return self.pick(_WALLS) * (1.04 - 0.16 * (self.y / horizon).clamp(max=1))


def edge(distance: Tensor, softness: float = 1.0) -> Tensor:
    """Anti-aliased step: 1 where the distance (in picture heights) is positive."""
    return (distance * SIDE / softness + 0.5).clamp(0, 1)


def specks(b: Brush, cells: int, chance: float, radius: float) -> Tensor:
    """Mask of round spots [n, 1, 256, 256], at most one per cell of a cells x cells grid."""
    here = b.uniform(0, 1, 1, cells, cells) < chance
    size = b.uniform(0.5, 1, 1, cells, cells) * radius * here
    dx, dy = (b.uniform(0.2, 0.8, 1, cells, cells) for _ in range(2))
    spread = [F.interpolate(t, (SIDE, SIDE), mode="nearest") for t in (size, dx, dy)]
    near = ((b.x * cells % 1 - spread[1]) ** 2 + (b.y * cells % 1 - spread[2]) ** 2).sqrt() / cells
    return edge(spread[0] - near) * (spread[0] > 0)


def floor(b: Brush, low: float = 0.52, high: float = 0.62) -> tuple[Tensor, Tensor, Tensor]:
    """Horizon [n, 1, 1, 1] and perspective floor coordinates (across, depth)."""
    horizon = b.uniform(low, high)
    depth = 0.5 / (b.y - horizon + 0.14).clamp(min=0.02)
    return horizon, (b.x - 0.5) * depth, depth


def stand(b: Brush, back: Tensor, ground: Tensor, horizon: Tensor) -> Tensor:
    """Ground below the horizon, darker in a thin line where both meet."""
    below = edge(b.y - horizon)
    seam = torch.exp(-(b.y - horizon).clamp(min=0) * 40) * 0.18
    return b.mix(back, ground * (1 - seam), below)
