"""A checkpoint against the model that it was made from."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.quant.lint.findings import ERROR, WARNING, Finding
from workbench.quant.lint.folder import CONFIG, KEY, Component, Subject
from workbench.zoo.names import canonical

_FREE = (KEY, "_name_or_path", "_diffusers_version", "transformers_version", "torch_dtype", "dtype")
"""Fields that an export may change."""


def check_source(subject: Subject, source: Subject) -> Iterator[Finding]:
    """Fields that changed, and linears that are gone or of another shape.

    Args:
        subject: The checkpoint.
        source: The 16-bit model.
    """
    originals = {component.name: component for component in source.components}
    for component in subject.components:
        original = originals.get(component.name)
        if original is not None:
            yield from _fields(component, original)
            yield from _linears(component, original)


def _fields(component: Component, original: Component) -> Iterator[Finding]:
    mine, theirs = component.config, original.config
    for name in sorted({*mine, *theirs} - set(_FREE)):
        if mine.get(name) != theirs.get(name):
            yield Finding(
                WARNING, "config-changed", f"{component.where}{CONFIG}", "",
                f"{name} is {mine.get(name)!r}, in the source {theirs.get(name)!r}; an export that "
                "changes the architecture loads as another model: put it back",
            )  # fmt: skip


def _linears(component: Component, original: Component) -> Iterator[Finding]:
    preset = component.preset
    own = {
        canonical(preset, name) if preset else name: linear
        for name, linear in component.linears.items()
    }
    for name, before in original.linears.items():
        after = own.get(name)
        file = component.file_of(next(iter(after.tensors.values()))) if after else component.where
        if after is None:
            message = "a linear of the source that the checkpoint lacks; export again"
            yield Finding(ERROR, "source-missing", file, name, message)
        elif after.shape != before.shape:
            message = f"is {list(after.shape)}, in the source {list(before.shape)}; export again"
            yield Finding(ERROR, "source-shape", file, name, message)
