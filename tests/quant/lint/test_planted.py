"""Every planted fault is named: rule, severity, file and tensor; nothing else is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import faulty_configs  # noqa: F401
import faulty_files  # noqa: F401
import faulty_tensors  # noqa: F401
import pytest
from faults import CASES, Case
from planting import copy

import workbench as wb


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_fault_is_named(case: Case, good: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy(good(case.base), tmp_path / "checkpoint")
    case.plant(folder)
    report = wb.lint(folder)
    found = [f for f in report.findings if f.rule == case.rule and f.file == case.file]
    assert case.tensor in [f.tensor for f in found], str(report)
    (named, *_) = [f for f in found if f.tensor == case.tensor and case.said in f.message]
    assert named.severity == case.severity
    assert report.ok == (not report.of("error"))


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 25
    assert len({case.rule for case in CASES}) >= 25
