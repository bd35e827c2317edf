"""What a comparison of videos shows: tables and curves by frame, players, slices of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from workbench.eval.views import Views

if TYPE_CHECKING:
    from workbench.eval.media import Html


class ClipViews(Views):
    """Of a :class:`Comparison`. A picture counts as a clip of one frame."""

    @property
    def of_videos(self) -> bool:
        """Whether any pair has more than one frame."""
        return any(len(frames) > 1 for frames in self._frames)

    def frames(self, index: int = 0) -> pd.DataFrame:
        """The metrics of each frame of row ``index`` of the table.

        Returns:
            One row a frame: frame, from 0; identical; every metric of pictures; and, of the metrics
            over time that were computed, the columns of :func:`workbench.temporal_table` at the
            frame that each transition leads to; at frame 0 the shift alone.

        Raises:
            IndexError: there is no such row.
        """
        return self._frames[index].copy()

    def worst_frames(self, metric: str = "psnr_db", n: int = 10) -> pd.DataFrame:
        """The frames of all pairs that are farthest from the reference, worst first.

        Args:
            metric: a column of :meth:`frames` that :func:`workbench.metric_table` knows.
            n: rows at most. Values that are no number count as none.

        Returns:
            row (of the table, for the figures), prompt, seed, and the columns of :meth:`frames`.

        Raises:
            ComparisonRefused: no such metric here; no rows asked for.
        """
        from workbench.eval.clip_scores import worst_frames

        tables = [
            frames.assign(row=row, prompt=pair[0].prompt, seed=pair[0].seed)
            for row, (frames, pair) in enumerate(zip(self._frames, self.pairs, strict=True))
        ]
        found = worst_frames(pd.concat(tables, ignore_index=True), metric, n)
        first = ["row", "prompt", "seed"]
        return found[[*first, *found.columns.drop(first)]].reset_index(drop=True)

    def worst_clips(self, metric: str = "psnr_db", n: int = 10) -> pd.DataFrame:
        """The rows of the table that are farthest from the reference by one metric, worst first.

        Args:
            metric: a column of the table that :func:`workbench.metric_table` knows.
            n: rows at most. Values that are no number count as none.

        Returns:
            Rows of :meth:`Comparison.table`; its index is the ``index`` of the figures.

        Raises:
            ComparisonRefused: no such metric here; no rows asked for.
        """
        from workbench.eval.clip_scores import worst_frames

        return worst_frames(self._table, metric, n)

    def players(self, index: int = 0, metrics: Sequence[str] | None = None) -> Html:
        """Reference, candidate and their difference of row ``index``, played by one clock.

        Several candidates in one: :func:`workbench.eval.clip_figures.clip_players`.

        Args:
            index: row of the table.
            metrics: columns of :meth:`frames` to choose from under the clips; None takes all.
        """
        from workbench.eval.clip_figures import clip_players

        pair = self.pairs[index][0]
        return clip_players([self], pair.prompt, pair.seed, floor=self.floor, metrics=metrics)

    def time_slices(self, index: int = 0, row: int | None = None) -> Html:
        """One row of pixels over time, of reference and candidate of row ``index``.

        Args:
            index: row of the table.
            row: of pixels, from the top; None takes the one where the reference changes most.
        """
        from workbench.eval.clip_figures import clip_slices

        pair = self.pairs[index][0]
        return clip_slices([self], pair.prompt, pair.seed, row=row)
