"""Figures of errors along the schedule and along frequencies: data frame in, plotly figure out."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from workbench.eval.bands import Curve, add_floor, banded, untold
from workbench.eval.figure_style import GREY, counted, styled

_SPECTRUM = Curve(x="radius", y="relative_error", about="{radius:.3f} cycles a pixel")
_VELOCITY = Curve(x="timestep", y="relative_l2", about="step {step}, timestep {timestep:.1f}")


def error_spectrum_figure(spectra: pd.DataFrame) -> go.Figure:
    """Error of the pictures by spatial frequency: median over the pairs, band from least to most.

    Args:
        spectra: one row a precision, pair and frequency: precision, prompt, seed, radius (cycles a
            pixel, from 0), relative_error (0 or larger; zeros are gaps on the logarithmic axis).
    """
    figure = banded(spectra, _SPECTRUM)
    figure.update_xaxes(rangemode="tozero")
    return styled(
        figure,
        "Error by spatial frequency",
        f"median and range over {counted(spectra)}{untold(spectra, _SPECTRUM)}; "
        "left: large shapes, right: fine detail; lower is closer",
        x="spatial frequency, cycles a pixel",
        y="relative error",
    )


def velocity_error(steps: pd.DataFrame, *, floor: pd.DataFrame | None = None) -> go.Figure:
    """Error of the model's own output by timestep, on the reference's latents (teacher-forced).

    Median over the pairs, band from least to most. No error is carried on from earlier steps, so
    this shows where in the schedule a precision is weak.

    Args:
        steps: one row a precision, pair and step: precision, prompt, seed, step, timestep (1000 is
            pure noise), relative_l2 (of the velocity; 0 or larger; zeros are gaps on the
            logarithmic axis).
        floor: the same of the reference against its repeat; its largest value is the floor.
    """
    figure = banded(steps, _VELOCITY)
    note = add_floor(figure, floor, _VELOCITY)
    figure.update_xaxes(autorange="reversed", rangemode="tozero")
    return styled(
        figure,
        "Error of the velocity by timestep",
        f"both models on the reference's latents; median and range over {counted(steps)}"
        f"{untold(steps, _VELOCITY)}; {note}",
        x="timestep, from noise to picture",
        y="relative L2 of the velocity",
    )


def share_of_final_error(steps: pd.DataFrame, *, column: str = "share_of_final") -> go.Figure:
    """How much of the final error is already there after each step: median and range.

    Pairs that end alike have no final error to share, nor have those whose final error is no number
    (latents that are not finite); they are left out and counted in the note.

    Args:
        steps: one row a precision, pair and step, as :meth:`Comparison.steps` gives: precision,
            prompt, seed, step, and the share: 0 or larger, 1 after the last step; above 1 where
            later steps undo an error.
        column: the name of the share.
    """
    curve = Curve(x="step", y=column, about="step {step}", log=False)
    runs = steps.groupby(["precision", "prompt", "seed"])[column]
    broken = runs.transform(lambda values: values.isna().any())
    parted = runs.transform("max") > 0
    kept = steps[parted & ~broken]
    lost = {
        "that end alike": _runs(steps[~parted & ~broken]),
        "with an end that is no number": _runs(steps[broken]),
    }
    figure = banded(kept, curve)
    figure.add_hline(y=1, line={"color": GREY, "dash": "dot"})
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    figure.update_xaxes(tick0=0, dtick=max(1, round(steps["step"].max() / 10)))
    left_out = "".join(f"; {count} {which} left out" for which, count in lost.items() if count)
    return styled(
        figure,
        "Share of the final error by denoising step",
        f"median and range over {counted(kept)}{left_out}; a steep start: the first steps decide",
        x="denoising step",
        y="error so far / final error",
    )


def _runs(steps: pd.DataFrame) -> int:
    return steps.groupby(["precision", "prompt", "seed"]).ngroups
