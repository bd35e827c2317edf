"""Every metric over time and what is known about it; loads no library.

They are apart from ``METRICS``, which are of one picture or one set of latents; ``KNOWN`` has both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from workbench.eval.metric_table import INFINITY, METRICS, Metric

OURS = "this workbench, docs/metrics.md"
_of_clips = partial(Metric, on="clips", better="lower", identical=0.0)
_ALL = (
    _of_clips(
        key="flicker_error",
        title="flicker error",
        unit="of white",
        lower=0.0,
        upper=2.0,
        source=f"{OURS}; kin to dtSSD, Erofeev et al. 2015, https://doi.org/10.5244/C.29.99",
        where="temporal.flicker_error",
    ),
    _of_clips(
        key="warping_error",
        title="warping error beyond the reference's",
        unit="of white squared",
        lower=-1.0,
        upper=1.0,
        source="Lai et al. 2018, https://arxiv.org/abs/1808.00449, with another optical flow",
        where="temporal.warping_error",
    ),
    _of_clips(
        key="motion_error",
        title="change of motion",
        unit="doublings",
        lower=0.0,
        upper=INFINITY,
        source=OURS,
        where="temporal.motion_error",
    ),
    _of_clips(
        key="shift_error",
        title="shift of the frame",
        unit="pixels",
        lower=0.0,
        upper=INFINITY,
        source=f"{OURS}; https://en.wikipedia.org/wiki/Phase_correlation",
        where="clip_shift.shift_error",
    ),
    _of_clips(
        key="jitter",
        title="jitter of the frame",
        unit="pixels a frame",
        lower=0.0,
        upper=INFINITY,
        source=f"{OURS}; https://en.wikipedia.org/wiki/Phase_correlation",
        where="clip_shift.jitter",
    ),
    _of_clips(
        key="subject_drift",
        title="drift of the moving part beyond the reference's",
        lower=-1.0,
        upper=1.0,
        source=OURS,
        where="drift.subject_drift",
    ),
    _of_clips(
        key="background_drift",
        title="drift of the rest beyond the reference's",
        lower=-1.0,
        upper=1.0,
        source=OURS,
        where="drift.background_drift",
    ),
)
TEMPORAL: Mapping[str, Metric] = MappingProxyType({metric.key: metric for metric in _ALL})
"""By key, all of two clips."""
KNOWN: Mapping[str, Metric] = MappingProxyType({**METRICS, **TEMPORAL})
"""Every metric that a table may have, by key."""


@dataclass(frozen=True, kw_only=True)
class NearVBench:
    """What of ours stands where VBench has a dimension."""

    key: str
    """Ours: of TEMPORAL, or of what ``temporal_scores`` gives beside it."""
    beside: str
    """The metric of TEMPORAL that it is, or that it stands beside."""
    dimension: str
    """VBench's name."""
    same: bool
    """Whether it is the same number on the same frames."""
    theirs: str
    """What VBench takes."""
    ours: str
    """What is taken here instead."""

    def __str__(self) -> str:
        own = "" if self.key == self.beside else f", as {self.key}"
        return (
            f"{self.dimension}: {'the same number' if self.same else 'near, another number'}{own}"
        )


VBENCH = (
    NearVBench(
        key="temporal_flickering",
        beside="flicker_error",
        dimension="temporal_flickering",
        same=True,
        theirs="1 - mean |a' - a| / white, of videos chosen because they stand still",
        ours="the same sum, of any clip: motion counts too, so look at it beside the reference's",
    ),
    NearVBench(
        key="subject_drift",
        beside="subject_drift",
        dimension="subject_consistency",
        same=False,
        theirs="cosine of DINO features of whole frames, to the first and to the one before",
        ours="cosine distance of colours and edges of the moving part to the first frame, beyond "
        "the reference's",
    ),
    NearVBench(
        key="background_drift",
        beside="background_drift",
        dimension="background_consistency",
        same=False,
        theirs="cosine of CLIP features of whole frames, to the first and to the one before",
        ours="cosine distance of colours and edges of all that stands still to the first frame, "
        "beyond the reference's",
    ),
    NearVBench(
        key="warping_error",
        beside="warping_error",
        dimension="motion_smoothness",
        same=False,
        theirs="how well a network (AMT) guesses each second frame from its neighbours",
        ours="how well the reference's optical flow takes each frame to its neighbour",
    ),
    NearVBench(
        key="motion_candidate_px",
        beside="motion_error",
        dimension="dynamic_degree",
        same=False,
        theirs="whether the fastest twentieth of RAFT's flow passes a threshold",
        ours="mean length of OpenCV's flow over all pixels; no threshold",
    ),
)
"""VBench's dimensions over time (Huang et al. 2024, https://arxiv.org/abs/2311.17982) and ours."""
