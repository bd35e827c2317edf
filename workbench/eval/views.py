"""What a comparison shows: figures over all pairs, and single pairs to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.eval.labels import label

if TYPE_CHECKING:
    from PIL import Image
    from plotly.graph_objects import Figure

    from workbench.eval.galleries import PairRow
    from workbench.eval.media import Html

SHOWN = ("psnr_db", "ssim", "flip")  # below a picture


class Views:
    """Of a :class:`Comparison`; row 0 of its table is the worst pair.

    Each raises IndexError where there is no such row.
    """

    reference: Any
    candidate: Any
    floor: Any
    pairs: Any
    _table: pd.DataFrame
    _steps: pd.DataFrame

    def plot_divergence(self) -> Figure:
        """Relative L2 by denoising step, with the floor where there is one."""
        from workbench.eval.figures import divergence_by_step

        return divergence_by_step(self._steps, floor=self.floor and self.floor.steps())

    def flip(self, index: int = 0) -> Html:
        """Flip between the two pictures of row ``index`` of the table."""
        from workbench.eval.media import flip

        return flip(self._pictures(index), labels=self._labels, caption=self.caption(index))

    def slider(self, index: int = 0) -> Html:
        """Drag a divider over the two pictures of row ``index``."""
        from workbench.eval.viewers import slider

        return slider(self._pictures(index), labels=self._labels, caption=self.caption(index))

    def error_map(self, index: int = 0) -> Html:
        """Where the eye sees a difference in row ``index``: its FLIP errors."""
        from workbench.eval.viewers import error_map

        return error_map(
            self._pictures(index),
            self._flip_errors(index),
            labels=self._labels,
            caption=self.caption(index),
        )

    def worst(self, count: int = 6) -> Html:
        """The ``count`` worst pairs below each other, with difference and FLIP errors."""
        from workbench.eval.galleries import worst_pairs

        rows = (self._gallery_row(index) for index in range(min(count, len(self.pairs))))
        return worst_pairs(rows, count=count, labels=self._labels)

    def spectrum(self, count: int | None = None) -> pd.DataFrame:
        """Error by fineness of detail, of the ``count`` worst pairs or of all.

        Returns:
            precision, prompt, seed, and what :func:`workbench.eval.spectrum.error_spectrum` gives.
        """
        from workbench.eval.spectrum import error_spectrum

        return pd.concat(
            [
                error_spectrum(a.image, b.image).assign(
                    precision=self._labels[1], prompt=a.prompt, seed=a.seed
                )
                for a, b in self.pairs[:count]
            ],
            ignore_index=True,
        )

    def scrub(
        self,
        index: int,
        reference_frames: Sequence[Image.Image],
        candidate_frames: Sequence[Image.Image],
    ) -> Html:
        """Slide through the denoising steps of row ``index``.

        Args:
            index: row of the table.
            reference_frames: steps + 1 pictures, decoded from
                ``pairs[index][0].trajectory.latents``.
            candidate_frames: the same of ``pairs[index][1]``.

        Raises:
            ComparisonRefused: not one picture a latent.
        """
        from workbench.eval.media import scrubber

        frames = {
            f"reference {self._labels[0]}": reference_frames,
            f"candidate {self._labels[1]}": candidate_frames,
        }
        timesteps = self.pairs[index][0].trajectory.timesteps
        return scrubber(frames, timesteps, caption=self.caption(index))

    def caption(self, index: int) -> str:
        """Prompt, seed and scores of row ``index`` in a line."""
        row = self._table.iloc[index]
        scores = (f"{name} {value}" for name, value in self._scores(index).items())
        return " · ".join((row.prompt, f"seed {row.seed}", *scores))

    def _scores(self, index: int) -> dict[str, str]:
        from workbench.eval.metric_table import METRICS

        row = self._table.iloc[index]
        if row["identical"]:
            return {"pixels": "identical"}
        return {
            METRICS[name].title: f"{row[name]:.3g} {METRICS[name].unit}".strip()
            for name in SHOWN
            if name in row
        }

    def _gallery_row(self, index: int) -> PairRow:
        from workbench.eval.galleries import PairRow

        reference, candidate = self._pictures(index)
        pair = self.pairs[index][0]
        return PairRow(
            prompt=pair.prompt,
            seed=pair.seed,
            scores=self._scores(index),
            reference=reference,
            candidate=candidate,
            errors=self._flip_errors(index),
        )

    def _flip_errors(self, index: int) -> np.ndarray:
        from workbench.eval.flip_error import flip_map

        return flip_map(*map(np.asarray, self._pictures(index)))

    @property
    def _labels(self) -> tuple[str, str]:
        return label(self.reference), label(self.candidate)

    def _pictures(self, index: int) -> tuple[Image.Image, Image.Image]:
        reference, candidate = self.pairs[index]
        return reference.image, candidate.image
