"""What a report shows of single pairs: pictures to flip between, players of videos."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.eval.clip_figures import clip_players
from workbench.eval.comparison import Comparison
from workbench.eval.floor_guard import refuse_foreign_floor
from workbench.eval.labels import labels
from workbench.eval.media import Html, grid


def one_prompt(
    comparisons: Iterable[Comparison], prompt: int | str = 0, *, floor: Comparison
) -> Html:
    """One prompt at all precisions: a grid of pictures; of videos the first seed's, by one clock.

    Args:
        comparisons: one a candidate, against one reference.
        prompt: the prompt, or its index in the reference.
        floor: the reference against its repeat: a picture of the grid, a curve of the players.

    Raises:
        SpecError: no such prompt in the reference of pictures.
        ComparisonRefused: a floor of another reference; of videos what
            :func:`~workbench.eval.clip_figures.clip_players` refuses.
    """
    every = list(comparisons)
    for one in every:
        refuse_foreign_floor(one.reference, floor)
    if floor.of_videos:
        return clip_players(every, prompt, floor=floor)
    sets = [floor.reference, floor.candidate, *(one.candidate for one in every)]
    return grid(dict(zip(labels(sets), sets, strict=True)), prompt=prompt)


def up_close(comparison: Comparison, index: int = 0) -> Html:
    """One pair: two pictures to flip between.

    Of videos players, a row of pixels over time, and the frame that is worst by PSNR to flip.

    Args:
        comparison: of a candidate.
        index: row of its table; 0 is the worst pair by PSNR.
    """
    shown = [comparison.flip(index)]
    if comparison.of_videos:
        shown = [comparison.players(index), comparison.time_slices(index), *shown]
    return Html("\n".join(map(str, shown)))
