"""From a launched model to its audit: ask its workers, judge, read weights back, judge again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.audits import Audit
from workbench.serve.audit import audit
from workbench.serve.expected import expectations
from workbench.serve.proof import proved, samples
from workbench.serve.source import source_of
from workbench.specs import LaunchSpec
from workbench.zoo.families import Family

Call = Callable[..., Any]


def proved_audit(spec: LaunchSpec, folder: Path, family: Family, call: Call) -> Audit:
    """The audit of a model that is loaded, by its own modules and weights.

    Args:
        spec: What was asked for.
        folder: What was served.
        family: What it is.
        call: Runs a method of :class:`workbench.serve.tracing.WorkerTools` by name in the workers;
            gives back the answer of rank 0.

    Raises:
        PrecisionNotApplied: the loaded modules do not run at the precision asked for.
    """
    expected = expectations(folder, family, spec)
    found = audit(spec, expected, call("workbench_census"))
    source = source_of(spec, folder, family)
    asked = samples(found.layers, expected, source)
    answers = call("workbench_read_back", asked)["answers"]
    return proved(found, asked, answers, source)
