"""A plan: which layouts of a model are valid, and where it fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from workbench.errors import NotSupportedHere, SpecError
from workbench.serve.layouts import describe
from workbench.serve.plan_layouts import Layout, Layouts
from workbench.serve.plan_memory import GIB
from workbench.serve.plan_nearest import SIZES
from workbench.specs import Parallelism, Sampling

if TYPE_CHECKING:
    import pandas as pd


class Plan:
    """Every layout of one model within a number of devices. Made by :func:`workbench.plan`.

    Iterate over it for its layouts; ``len`` is their number.
    """

    def __init__(self, layouts: Layouts, *, title: str, notes: tuple[str, ...] = ()) -> None:
        self._layouts = layouts
        self.title = title
        self.notes = notes
        """What holds of every layout, e.g. that the workbench does not draw with the model."""

    def __iter__(self) -> Iterator[Layout]:
        return iter(self._layouts.all)

    def __len__(self) -> int:
        return len(self._layouts.all)

    @property
    def valid(self) -> tuple[Layout, ...]:
        """The layouts that the engine runs as asked."""
        return tuple(layout for layout in self if layout.valid)

    def layout(self, parallelism: Parallelism | None = None, **sizes: Any) -> Layout:
        """One layout, also one that needs more devices than there are.

        Args:
            parallelism: The layout; None is the single device.
            **sizes: Fields of Parallelism, in place of the layout's own.

        Raises:
            SpecError: sizes that no layout has, such as 0.
        """
        if parallelism is not None and not isinstance(parallelism, Parallelism):
            raise SpecError(
                f"{parallelism!r} is a {type(parallelism).__name__}; give a Parallelism, or sizes "
                "by name, such as tensor_parallel_size=2"
            )
        asked = (parallelism or Parallelism()).but(**sizes)
        return self._layouts.judge(asked)

    def smallest(self) -> Layout:
        """The valid layout of the fewest devices whose estimate is within their memory.

        Of several the one with most memory to spare.

        Raises:
            NotSupportedHere: none fits; says by how much.
        """
        best = self._layouts.smallest()
        if best is None:
            raise NotSupportedHere(self._shortage())
        return best

    def table(self) -> pd.DataFrame:
        """One row a layout.

        Returns:
            layout, the five sizes, world_size (ranks), replicas, valid, fits, reasons (joined by
            ``; ``), nearest (valid layout, for an invalid one), memory_gib (of the fullest rank),
            and for each component its GiB on that rank.
        """
        import pandas as pd

        return pd.DataFrame([_row(layout) for layout in self])

    def with_schemes(self) -> pd.DataFrame:
        """What other number formats would change, by the same rules and the same estimate.

        Returns:
            One row a scheme: scheme, how (online, or which quantizer), quantized (share of the
            transformers' weights), weights_gib (of one rank that holds everything), memory_gib (of
            the fullest rank on one device), smallest_gpus (None if it fits nowhere), layout (of
            those).
        """
        import pandas as pd

        from workbench.serve.plan_schemes import scheme_rows

        return pd.DataFrame(scheme_rows(self._layouts))

    def __str__(self) -> str:
        valid = self.valid
        lines = [
            self.title,
            f"{len(valid)} of {len(self)} layouts are valid; estimates of memory are rough",
        ]
        best = self._layouts.smallest()
        if best is not None:
            ranks = best.parallelism.world_size
            lines.append(
                f"fits on {ranks} device{'s' * (ranks > 1)} with {describe(best.parallelism)}: "
                f"{gib(best.needed)} of {gib(best.capacity)} GiB"
            )
        else:
            lines.append(self._shortage())
        return "\n".join((*lines, *self.notes))

    __repr__ = __str__

    def _shortage(self) -> str:
        if not self.valid:
            return f"no layout is valid: {next(iter(self)).reasons[0]}"
        least = min(self.valid, key=lambda layout: layout.needed)
        return (
            f"no layout fits: the least, {describe(least.parallelism)}, needs about "
            f"{gib(least.needed)} GiB on a device of {gib(least.capacity)}, "
            f"{gib(least.needed - least.capacity)} GiB too much; plan with more devices, a smaller "
            "picture, or a scheme of plan.with_schemes()"
        )


def gib(size: int) -> str:
    """Bytes as GiB, to one digit."""
    return f"{size / GIB:.1f}"


def size_of(sampling: Sampling) -> str:
    """Pixels and frames that are drawn."""
    frames = f", {sampling.num_frames} frames" if sampling.num_frames else ""
    return f"{sampling.width or 1024} x {sampling.height or 1024} pixels{frames}"


def _row(layout: Layout) -> dict[str, Any]:
    memory = layout.estimate.fullest(layout.parallelism)
    needed, nearest = sum(memory.values()), layout.nearest
    return {
        "layout": describe(layout.parallelism),
        **{name: getattr(layout.parallelism, name) for name in SIZES},
        "world_size": layout.parallelism.world_size,
        "replicas": layout.replicas,
        "valid": layout.valid,
        "fits": needed <= layout.capacity,
        "reasons": "; ".join(layout.reasons),
        "nearest": describe(nearest) if nearest else None,
        "memory_gib": needed / GIB,
        **{f"{name}_gib": size / GIB for name, size in memory.items()},
    }
