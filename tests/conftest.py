"""Tiny pipelines of every family, built once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.zoo.tiny import build_tiny


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("qwen-image", tmp_path_factory.mktemp("tiny") / "qwen-image")


@pytest.fixture(scope="session")
def tiny_flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("flux", tmp_path_factory.mktemp("tiny") / "flux")


@pytest.fixture(scope="session")
def tiny_wan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("wan", tmp_path_factory.mktemp("tiny") / "wan", layers=1, experts=2)


@pytest.fixture(scope="session")
def tiny_i2v(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "wan-i2v"
    return build_tiny("wan-i2v", folder, layers=1, experts=2)


@pytest.fixture(scope="session")
def tiny_ti2v(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny("wan", tmp_path_factory.mktemp("tiny") / "ti2v", layers=1, ti2v=True)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty run folder."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that all tests of a session share, for what is slow to make."""
    return tmp_path_factory.mktemp("shared") / "runs"
