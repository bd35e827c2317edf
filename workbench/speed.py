"""How fast, in how much memory: requests under load, a benchmark, what ranks held. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from workbench import store
from workbench.audits import Audit
from workbench.spec import Spec
from workbench.specs import LaunchSpec, Workload

if TYPE_CHECKING:
    import pandas as pd

KIND = "benchmarks"


class BenchmarkSpec(Spec):
    """A launch under a workload."""

    launch: LaunchSpec
    workload: Workload
    warmups: int = Field(ge=0)
    """Requests before the first that counts."""
    stages: bool = True
    """Whether the components are timed as well."""
    repeat: int = Field(0, ge=0)
    """Counts independent runs of the same benchmark."""


@dataclass(frozen=True, kw_only=True)
class RequestRow:
    """One request. Times are seconds since the load began, by a clock that never jumps."""

    index: int
    """In the order of sending."""
    prompt: str
    seed: int
    sent_s: float
    received_s: float
    """When the last byte was there; of a failed one, when that was known."""
    queue_wait_s: float | None = None
    """From arrival until it was scheduled; None if the engine does not say."""
    stage_durations_s: dict[str, float]
    """The engine's own split. While another request is drawn, the wait for it is in here too."""
    bytes: int = 0
    """Of the answer, as it came over the wire; 0 in-process."""
    pictures: int = 0
    """In the answer; of a video model clips, whatever their frames."""
    sha256: str = ""
    """Of the pixels of the first picture, or of all frames of the first clip."""
    error: str = ""
    """Why it failed; empty if it did not."""

    @property
    def latency_s(self) -> float:
        """From sending to the last byte."""
        return self.received_s - self.sent_s


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """What a load showed. Failed requests are in the rows, and in no latency or throughput."""

    workload: Workload
    precision: str
    rows: tuple[RequestRow, ...]

    @property
    def completed(self) -> tuple[RequestRow, ...]:
        """The requests that brought a picture or clip."""
        return tuple(row for row in self.rows if not row.error)

    @property
    def failed(self) -> tuple[RequestRow, ...]:
        """The requests that did not, each with its error."""
        return tuple(row for row in self.rows if row.error)

    @property
    def elapsed_s(self) -> float:
        """From the first request sent to the last answer."""
        return max(row.received_s for row in self.rows) - min(row.sent_s for row in self.rows)

    @property
    def requests_per_s(self) -> float:
        """Completed requests a second."""
        return len(self.completed) / self.elapsed_s

    @property
    def drawn(self) -> str:
        """What is counted: ``pictures``, or ``clips`` of a video model."""
        return "pictures" if self.workload.sampling.num_frames is None else "clips"

    @property
    def pictures_per_s(self) -> float:
        """Pictures a second; of a video model clips a second."""
        return sum(row.pictures for row in self.completed) / self.elapsed_s

    @property
    def latency_s(self) -> dict[str, float]:
        """``median``, ``p90`` and ``max`` of the completed requests; NaN if there are none."""
        times = [row.latency_s for row in self.completed] or [np.nan]
        median, p90 = np.quantile(times, (0.5, 0.9))
        return {"median": float(median), "p90": float(p90), "max": float(max(times))}

    def table(self) -> pd.DataFrame:
        """One row a request: the fields of :class:`RequestRow`, and latency_s."""
        import pandas as pd

        return pd.DataFrame([{**asdict(row), "latency_s": row.latency_s} for row in self.rows])

    def __str__(self) -> str:
        times = ", ".join(f"{name} {value:.3g} s" for name, value in self.latency_s.items())
        return (
            f"{self.precision}, {self.workload.concurrency} in flight: {len(self.completed)} of "
            f"{len(self.rows)} requests in {self.elapsed_s:.3g} s, {self.requests_per_s:.3g} "
            f"requests/s, {self.pictures_per_s:.3g} {self.drawn}/s; latency {times}"
        )


@dataclass(frozen=True, kw_only=True)
class RankMemory:
    """Bytes that one worker held. None where this device keeps no such books."""

    rank: int
    weights: dict[str, int]
    """Of each component, as they lie in memory."""
    load_peak: int | None
    """Highest allocated while the weights were loaded and repacked."""
    allocated_peak: int | None
    """Highest in use by tensors during the requests that count."""
    reserved_peak: int
    """Highest that the allocator kept; on CPU the weights and the rise of resident memory."""
    device_used: int | None
    """Of the whole device after the requests, less what was in use before the launch: with the CUDA
    context, also where an inline launch of this process had made it before."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One launch under one workload: raw rows, and what they come to."""

    path: Path
    spec: BenchmarkSpec
    audit: Audit
    result: LoadResult
    """The requests that count."""
    warmups: tuple[RequestRow, ...]
    cold_s: float | None
    """Latency of this engine's first request at this sampling; None if it had drawn it before."""
    batches: dict[int, int]
    """Pictures or clips in one pass of a transformer -> passes of that size, as they really ran."""
    stages_s: dict[str, float]
    """Seconds of each component in a run of its own, which waits for the device around each call;
    ``rest`` is what is left of the wall time. Empty if it was not asked for."""
    memory: tuple[RankMemory, ...]
    load_s: float
    """Time to start the engine."""
    checkpoint_bytes: dict[str, int]
    """Weight bytes of each component on disk."""
    random_weights: bool
    """Whether the model is one of the shapes that have no trained weights."""
    provenance: dict[str, Any] = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> Benchmark:
        """Read a benchmark folder of the store."""
        manifest = store.read(folder)
        spec = BenchmarkSpec(**manifest["spec"])
        rows = tuple(RequestRow(**row) for row in manifest["rows"])
        workload, precision = spec.workload, spec.launch.precision
        names = ("cold_s", "stages_s", "load_s", "checkpoint_bytes", "random_weights", "provenance")
        return cls(
            path=folder,
            spec=spec,
            audit=Audit.from_json(manifest["audit"]),
            result=LoadResult(workload=workload, precision=precision, rows=rows),
            warmups=tuple(RequestRow(**row) for row in manifest["warmups"]),
            batches={int(size): number for size, number in manifest["batches"].items()},
            memory=tuple(RankMemory(**rank) for rank in manifest["memory"]),
            **{name: manifest[name] for name in names},
        )

    @property
    def key(self) -> str:
        """First 12 hex digits that name its folder."""
        return self.path.name

    @property
    def precision(self) -> str:
        """Name for tables: BF16, FP8, INT8, W4A16, ..."""
        return self.result.precision

    @cached_property
    def peak_bytes(self) -> int:
        """Reserved peak of all ranks together."""
        return sum(rank.reserved_peak for rank in self.memory)

    @property
    def mean_batch(self) -> float:
        """Pictures or clips in one pass of a transformer, on average over the passes."""
        passes = sum(self.batches.values())
        return sum(size * n for size, n in self.batches.items()) / passes if passes else np.nan

    def table(self) -> pd.DataFrame:
        """The raw rows: one a request, see :meth:`LoadResult.table`."""
        return self.result.table()

    def __str__(self) -> str:
        random = " (random weights)" if self.random_weights else ""
        return f"{self.result}{random}; peak {self.peak_bytes / 2**20:.0f} MiB"
