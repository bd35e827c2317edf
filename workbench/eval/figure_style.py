"""What all figures share: colours, texts, titles."""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb, sequential

# Okabe and Ito's palette, distinct under every common colour blindness: https://jfly.uni-koeln.de/color/
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#8A8A8A"
COLOURS = {
    "BF16": "#333333",
    "FP16": "#333333",
    "FP32": "#333333",
    "FP8": PALETTE[0],
    "INT8": PALETTE[4],
    "W4A16": PALETTE[1],
    "W4A16 tuned": PALETTE[3],
    "W4A16 opt-RTN": "#8C6D31",
    "FP8_PER_CHANNEL_PER_TOKEN": PALETTE[0],
    "ModelOpt FP8": PALETTE[5],
    "ModelOpt FP8 dynamic-all": PALETTE[5],
    "FP8+NVFP4": PALETTE[2],
    "W8A16": PALETTE[4],
    "NVFP4": PALETTE[2],
    "MXFP8": PALETTE[5],
    "MXFP4": PALETTE[3],
}
ERROR_SCALE = tuple(sequential.Magma)
"""Colours of an error from 0 (nearly black) to 1 (pale yellow), evenly spaced."""
_MARGIN = 0.08  # of the axis, between the largest finite value and the place of infinite ones
_LINE, _LINE_PIXELS = 120, 17  # characters of a note's line, and its height


def colour(precision: str) -> str:
    """The colour of a precision, the same in every figure; repeats are grey."""
    if " repeat" in precision:
        return GREY
    return COLOURS.get(precision) or PALETTE[zlib.crc32(precision.encode()) % len(PALETTE)]


def shaded(shade: str, opacity: float) -> str:
    """A colour ``#rrggbb`` at an opacity from 0 to 1, as CSS."""
    red, green, blue = hex_to_rgb(shade)
    return f"rgba({red},{green},{blue},{opacity})"


def error_colours(errors: np.ndarray) -> np.ndarray:
    """The colours of :data:`ERROR_SCALE` for a map of errors.

    Args:
        errors: [height, width], 0 to 1; what lies outside takes the nearest end.

    Returns:
        uint8 [height, width, 3].
    """
    stops = np.array([hex_to_rgb(one) for one in ERROR_SCALE], dtype=float)
    places = np.linspace(0, 1, len(stops))
    channels = [np.interp(errors, places, stops[:, i]) for i in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def text(value: Any) -> Any:
    """A value as text of a figure may show it: markup escaped, numbers as they are.

    Quotes stay: plotly would show their entities letter by letter.
    """
    return escape(value, quote=False) if isinstance(value, str) else value


def counted(rows: pd.DataFrame) -> str:
    """How many pairs of prompt and seed a table covers: ``12 pairs``."""
    pairs = rows.groupby(["prompt", "seed"]).ngroups
    return f"{pairs} pair{'s' * (pairs != 1)}"


def with_unit(title: str, unit: str) -> str:
    """Title of an axis: ``PSNR, dB``."""
    return text(f"{title}, {unit}" if unit else title)


def beyond(values: Iterable[float]) -> float:
    """A place beyond all finite values, where a figure shows infinite ones."""
    known = np.asarray(list(values), dtype=float)
    finite = known[np.isfinite(known)]
    if not finite.size:
        return 1.0
    return float(finite.max() + _MARGIN * (np.ptp(finite) or abs(finite.max()) or 1.0))


def styled(figure: go.Figure, title: str, note: str, *, x: str, y: str) -> go.Figure:
    """The house style: title, its first letter large, with a note below it, titles of both axes.

    Args:
        figure: changed in place.
        title: what is shown.
        note: how to read it; broken into lines where it is long.
        x: title of the axis across.
        y: title of the axis up.
    """
    lines = textwrap.wrap(note, _LINE, break_long_words=False, break_on_hyphens=False)
    extra = _LINE_PIXELS * max(0, len(lines) - 1)
    at_top = {"y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 18}} if extra else {}
    return figure.update_layout(
        template="plotly_white",
        title={
            "text": title[:1].upper() + title[1:],
            "subtitle": {"text": "<br>".join(lines)},
            **at_top,
        },
        xaxis_title=x,
        yaxis_title=y,
        height=430 + extra,
        margin={"l": 80, "r": 30, "t": 90 + extra, "b": 60},
        font={"family": "system-ui, sans-serif", "color": "#222"},
        hovermode="x unified" if figure.data and figure.data[0].type == "scatter" else "closest",
    )
