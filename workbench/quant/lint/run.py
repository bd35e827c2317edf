"""The linter: every rule over every component."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench import zoo
from workbench.quant.lint import bytes_on_disk
from workbench.quant.lint.coverage import check_pipeline, shares
from workbench.quant.lint.fields import check_fields
from workbench.quant.lint.findings import SEVERITIES, Finding
from workbench.quant.lint.folder import Component, Subject, open_folder
from workbench.quant.lint.fused import check_fused
from workbench.quant.lint.loading import check_loading
from workbench.quant.lint.methods import MethodName
from workbench.quant.lint.naming import check_names
from workbench.quant.lint.prediction import Prediction, predict
from workbench.quant.lint.report import LintReport
from workbench.quant.lint.scales import check_presence, check_values
from workbench.quant.lint.shapes import check_shapes
from workbench.quant.lint.shards import check_files
from workbench.quant.lint.small import DEFAULT_BYTES
from workbench.quant.lint.source import check_source
from workbench.quant.lint.zeros import check_zeros
from workbench.records import Checkpoint
from workbench.specs import ModelRef
from workbench.zoo.repairs import REPAIRS

Target = Checkpoint | ModelRef | Path | str


def lint(
    folder: Target,
    *,
    source: Target | None = None,
    plugin: bool = True,
    scale_bytes: int = DEFAULT_BYTES,
) -> LintReport:
    """Check a checkpoint from its headers, configs and scales: no GPU, no torch, no weights read.

    Args:
        folder: Pipeline in diffusers layout, one component of it, a flat transformers folder, a
            Checkpoint, ``embedded:NAME`` or a hub id.
        source: The 16-bit model that it was made from; changed fields and shapes are then told.
        plugin: Whether the engine that will serve it has the workbench's plugin; what only stock
            vLLM-Omni gets wrong is then a note, else an error.
        scale_bytes: Scales and zero points to read at most, per component; beyond it large ones are
            sampled, and a note says so.

    Returns:
        The findings, errors first, with bytes and what the engine will do.

    Raises:
        ModelNotFound: no such folder, or nothing in it that could be a model.
    """
    subject = open_folder(_locate(folder))
    stock = tuple(predict(component) for component in subject.components)
    repaired = tuple(predict(component, tuple(REPAIRS)) for component in subject.components)
    found = list(check_pipeline(subject))
    for component, pair in zip(subject.components, zip(stock, repaired, strict=True), strict=True):
        found += _component(subject, component, pair, plugin, scale_bytes)
    if source is not None:
        found += check_source(subject, open_folder(_locate(source)))
    order = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    speaking = next((c for c in subject.transformers if c.quantization), None)
    return LintReport(
        folder=subject.folder,
        findings=tuple(sorted(dict.fromkeys(found), key=lambda f: order[f.severity])),
        bytes_by_component=bytes_on_disk.by_component(subject),
        bytes_by_scheme=bytes_on_disk.by_scheme(subject),
        coverage=shares(subject),
        method=speaking.method if speaking else MethodName("", ""),
        stock=stock,
        plugin=repaired,
    )


def _component(
    subject: Subject,
    component: Component,
    predictions: tuple[Prediction, Prediction],
    plugin: bool,
    scale_bytes: int,
) -> Iterator[Finding]:
    yield from check_files(subject, component)
    yield from check_fields(component)
    yield from check_presence(component)
    yield from check_values(component, scale_bytes)
    yield from check_zeros(component, scale_bytes)
    yield from check_shapes(component)
    yield from check_fused(component)
    yield from check_names(component, plugin=plugin)
    stock, repaired = predictions
    if component.transformer:
        yield from check_loading(component, stock, repaired, served_with_plugin=plugin)


def _locate(target: Target) -> Path:
    if isinstance(target, Checkpoint):
        return target.path
    if isinstance(target, ModelRef):
        return zoo.locate(target)
    folder = Path(target).expanduser()
    if isinstance(target, Path) or folder.exists() or folder.is_absolute():
        return folder
    return zoo.locate(ModelRef(target))
