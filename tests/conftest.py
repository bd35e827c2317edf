"""Tiny pipelines of every family, built once a session."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from workbench.zoo.tiny import build_tiny

MODULES = 200
_frozen = 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Garbage collections leave out what libraries hold: a launch makes seven, a second each."""
    global _frozen
    if "vllm_omni" in sys.modules and len(sys.modules) > _frozen + MODULES:
        gc.collect()
        gc.freeze()
        _frozen = len(sys.modules)


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("qwen-image", tmp_path_factory.mktemp("tiny") / "qwen-image")


@pytest.fixture(scope="session")
def tiny_flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("flux", tmp_path_factory.mktemp("tiny") / "flux")


@pytest.fixture(scope="session")
def tiny_wan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("wan", tmp_path_factory.mktemp("tiny") / "wan", layers=1, experts=2)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty run folder."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that all tests of a session share, for what is slow to make."""
    return tmp_path_factory.mktemp("shared") / "runs"
