"""What a comparison shows: figures over all pairs, and single pairs to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.eval.frames import frames_of
from workbench.eval.labels import label

if TYPE_CHECKING:
    from PIL import Image
    from plotly.graph_objects import Figure

    from workbench.eval.galleries import PairRow
    from workbench.eval.media import Html

SHOWN = ("psnr_db", "ssim", "flip")  # below a picture


class Views:
    """Of a :class:`Comparison`; row 0 of its table is the worst pair.

    Where one picture of a video is shown, it is ``frame``, counted from 0; None takes the frame
    that is worst by PSNR. Each raises IndexError where there is no such row or frame.
    """

    reference: Any
    candidate: Any
    floor: Any
    pairs: Any
    _table: pd.DataFrame
    _steps: pd.DataFrame
    _frames: Any

    def plot_divergence(self) -> Figure:
        """Relative L2 by denoising step, with the floor where there is one."""
        from workbench.eval.figures import divergence_by_step

        return divergence_by_step(self._steps, floor=self.floor and self.floor.steps())

    def flip(self, index: int = 0, frame: int | None = None) -> Html:
        """Flip between the two pictures of row ``index`` of the table."""
        from workbench.eval.media import flip

        shown = self._frame(index, frame)
        pictures, caption = self._pictures(index, shown), self.caption(index, shown)
        return flip(pictures, labels=self._labels, caption=caption)

    def slider(self, index: int = 0, frame: int | None = None) -> Html:
        """Drag a divider over the two pictures of row ``index``."""
        from workbench.eval.viewers import slider

        shown = self._frame(index, frame)
        pictures, caption = self._pictures(index, shown), self.caption(index, shown)
        return slider(pictures, labels=self._labels, caption=caption)

    def error_map(self, index: int = 0, frame: int | None = None) -> Html:
        """Where the eye sees a difference in row ``index``: its FLIP errors."""
        from workbench.eval.viewers import error_map

        shown = self._frame(index, frame)
        pictures = self._pictures(index, shown)
        return error_map(
            pictures,
            _flip_errors(pictures),
            labels=self._labels,
            caption=self.caption(index, shown),
        )

    def worst(self, count: int = 6) -> Html:
        """The ``count`` worst pairs below each other, with difference and FLIP errors.

        Of videos the worst frame of each.
        """
        from workbench.eval.galleries import worst_pairs

        rows = (self._gallery_row(index) for index in range(min(count, len(self.pairs))))
        return worst_pairs(rows, count=count, labels=self._labels)

    def spectrum(self, count: int | None = None) -> pd.DataFrame:
        """Error by fineness of detail, of the ``count`` worst pairs or of all, frame by frame.

        Returns:
            precision, prompt, seed, frame, and what
            :func:`workbench.eval.spectrum.error_spectrum` gives.
        """
        from workbench.eval.spectrum import error_spectrum

        return pd.concat(
            [
                error_spectrum(*frames).assign(
                    precision=self._labels[1], prompt=a.prompt, seed=a.seed, frame=number
                )
                for a, b in self.pairs[:count]
                for number, frames in enumerate(zip(frames_of(a), frames_of(b), strict=True))
            ],
            ignore_index=True,
        )

    def scrub(
        self,
        index: int,
        reference_frames: Sequence[Image.Image],
        candidate_frames: Sequence[Image.Image],
    ) -> Html:
        """Slide through the denoising steps of row ``index``; of a video its first frame.

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
        return scrubber(frames, timesteps, caption=self.caption(index, 0))

    def caption(self, index: int, frame: int | None = None) -> str:
        """Prompt, seed and scores of row ``index`` in a line; of one frame if it is named."""
        row = self._table.iloc[index]
        scores = (f"{name} {value}" for name, value in self._scores(index, frame).items())
        return " · ".join((row.prompt, f"seed {row.seed}", *scores))

    def _scores(self, index: int, frame: int | None = None) -> dict[str, str]:
        """Of the pair; of one frame of a video, and which it is, if it is named."""
        frames = self._frames[index]
        if frame is not None and len(frames) > 1:
            of_frame = {"frame": f"{frame} of 0 to {len(frames) - 1}"}
            return of_frame | _told(frames.iloc[frame])
        return _told(self._table.iloc[index])

    def _frame(self, index: int, frame: int | None) -> int:
        """The frame asked for, or the worst one by PSNR; the first where PSNR is not known."""
        frames = self._frames[index]
        if frame is not None:
            return int(frames["frame"].iloc[frame])
        known = frames["psnr_db"].dropna() if "psnr_db" in frames else ()
        return int(frames["frame"][known.idxmin()]) if len(known) else 0

    def _gallery_row(self, index: int) -> PairRow:
        from workbench.eval.galleries import PairRow

        frame = self._frame(index, None)
        reference, candidate = pictures = self._pictures(index, frame)
        pair = self.pairs[index][0]
        return PairRow(
            prompt=pair.prompt,
            seed=pair.seed,
            scores=self._scores(index, frame),
            reference=reference,
            candidate=candidate,
            errors=_flip_errors(pictures),
        )

    @property
    def _labels(self) -> tuple[str, str]:
        return label(self.reference), label(self.candidate)

    def _pictures(self, index: int, frame: int) -> tuple[Image.Image, Image.Image]:
        reference, candidate = self.pairs[index]
        return frames_of(reference)[frame], frames_of(candidate)[frame]


def _told(row: pd.Series) -> dict[str, str]:
    """What a caption says of the scores of a row."""
    from workbench.eval.metric_table import METRICS

    if row["identical"]:
        return {"pixels": "identical"}
    return {
        METRICS[name].title: f"{row[name]:.3g} {METRICS[name].unit}".strip()
        for name in SHOWN
        if name in row
    }


def _flip_errors(pictures: tuple[Image.Image, Image.Image]) -> np.ndarray:
    from workbench.eval.flip_error import flip_map

    return flip_map(*map(np.asarray, pictures))
