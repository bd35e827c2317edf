"""What lies where: bytes by component and by number format."""

from __future__ import annotations

from workbench.quant.lint.folder import Component, Subject
from workbench.schemes import SIXTEEN_BIT

OTHER = "other tensors"


def by_component(subject: Subject) -> dict[str, dict[str, int | None]]:
    """Component -> used and total bytes of its files; used is None where a file is missing."""
    return {
        component.name: {
            "used": None if component.files.missing else component.files.used_bytes,
            "total": component.files.total_bytes,
        }
        for component in subject.components
        if component.files.headers or component.files.missing
    }


def by_scheme(subject: Subject) -> dict[str, dict[str, int]]:
    """Component -> number format -> bytes of the tensors, scales counted with their weights."""
    return {
        component.name: _schemes(component) for component in subject.components if component.tensors
    }


def _schemes(component: Component) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, facts in component.tensors.items():
        linear = component.linears.get(name.rpartition(".")[0])
        if linear is None or linear.scheme in SIXTEEN_BIT:
            scheme = facts.dtype if facts.dtype in SIXTEEN_BIT else OTHER
        else:
            scheme = linear.scheme
        sizes[scheme] = sizes.get(scheme, 0) + facts.nbytes
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))
