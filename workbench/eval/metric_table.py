"""Every metric and what is known about it: direction, range, source. Loads no library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

INFINITY = float("inf")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number for two pictures, latents or clips, or for a prompt and a picture."""

    key: str
    """Its column in every table."""
    title: str
    unit: str = ""
    """Empty where it has none."""
    better: Literal["higher", "lower"]
    """Where it can lie on both sides of ``identical``, its distance from that is what counts."""
    lower: float
    """Least value that it can take."""
    upper: float
    """Largest value that it can take; may be infinite."""
    identical: float
    """Its value for identical inputs; not a number where there is no such value."""
    on: Literal["pictures", "latents", "text", "clips"] = "pictures"
    """What its function takes: two pictures, latents or clips, or a prompt and the candidate."""
    source: str
    """Paper or standard that defines it."""
    where: str
    """Module of workbench.eval and name of its function."""
    weights: str = ""
    """The same of what says why its weights cannot be used; empty where it needs none."""

    @property
    def function(self) -> Callable[[Any, Any], float]:
        """What computes it; loads its library."""
        return _named(self.where)

    @property
    def signed(self) -> bool:
        """Whether it lies on both sides of its value for identical inputs."""
        return self.lower < self.identical < self.upper

    @property
    def closer(self) -> str:
        """Which end is closer to the reference, as a note says it: ``lower is closer``."""
        return (
            f"nearer to {self.identical:g} is closer" if self.signed else f"{self.better} is closer"
        )

    def farness(self, values: Any) -> Any:
        """One value, or a series or array of them, so that larger is farther from the reference."""
        if self.signed:
            return abs(values - self.identical)
        return values if self.better == "lower" else -values

    @property
    def available(self) -> str:
        """Empty where it can be computed; else the reason why not."""
        return _named(self.weights)() if self.weights else ""

    @property
    def range(self) -> str:
        """From the least to the largest value, as people write it."""
        return f"{self.lower:g} to {'infinity' if self.upper == INFINITY else f'{self.upper:g}'}"


def _named(where: str) -> Callable[..., Any]:
    module, name = where.split(".")
    return getattr(import_module(f"workbench.eval.{module}"), name)


_ALL = (
    Metric(
        key="psnr_db",
        title="PSNR",
        unit="dB",
        better="higher",
        lower=0.0,
        upper=INFINITY,
        identical=INFINITY,
        source="https://en.wikipedia.org/wiki/Peak_signal-to-noise_ratio",
        where="fidelity.psnr_db",
    ),
    Metric(
        key="ssim",
        title="SSIM",
        better="higher",
        lower=-1.0,
        upper=1.0,
        identical=1.0,
        source="Wang et al. 2004, https://doi.org/10.1109/TIP.2003.819861, equation 13",
        where="fidelity.ssim",
    ),
    Metric(
        key="ms_ssim",
        title="MS-SSIM",
        better="higher",
        lower=0.0,
        upper=1.0,
        identical=1.0,
        source="Wang et al. 2003, https://doi.org/10.1109/ACSSC.2003.1292216, equation 7",
        where="perceptual.ms_ssim",
    ),
    Metric(
        key="flip",
        title="FLIP",
        better="lower",
        lower=0.0,
        upper=1.0,
        identical=0.0,
        source="Andersson et al. 2020, https://doi.org/10.1145/3406183",
        where="flip_error.flip",
    ),
    Metric(
        key="mae",
        title="mean absolute error",
        unit="of white",
        better="lower",
        lower=0.0,
        upper=1.0,
        identical=0.0,
        source="https://en.wikipedia.org/wiki/Mean_absolute_error",
        where="fidelity.mean_absolute_error",
    ),
    Metric(
        key="high_frequency_error",
        title="high-frequency error",
        better="lower",
        lower=0.0,
        upper=INFINITY,
        identical=0.0,
        source="this workbench, docs/metrics.md",
        where="spectrum.high_frequency_error",
    ),
    Metric(
        key="lpips",
        title="LPIPS",
        better="lower",
        lower=0.0,
        upper=INFINITY,
        identical=0.0,
        source="Zhang et al. 2018, https://doi.org/10.1109/CVPR.2018.00068, equation 1",
        where="perceptual.lpips",
        weights="perceptual.lpips_available",
    ),
    Metric(
        key="clip_score",
        title="CLIPScore",
        better="higher",
        lower=0.0,
        upper=100.0,
        identical=float("nan"),
        on="text",
        source="Hessel et al. 2021, https://doi.org/10.18653/v1/2021.emnlp-main.595",
        where="perceptual.clip_score",
        weights="perceptual.clip_score_available",
    ),
    Metric(
        key="relative_l2",
        title="relative L2 of the latents",
        better="lower",
        lower=0.0,
        upper=INFINITY,
        identical=0.0,
        on="latents",
        source="https://en.wikipedia.org/wiki/Approximation_error",
        where="latents.relative_l2",
    ),
    Metric(
        key="cosine",
        title="cosine of the latents",
        better="higher",
        lower=-1.0,
        upper=1.0,
        identical=1.0,
        on="latents",
        source="https://en.wikipedia.org/wiki/Cosine_similarity",
        where="latents.cosine",
    ),
)
METRICS: Mapping[str, Metric] = MappingProxyType({metric.key: metric for metric in _ALL})
