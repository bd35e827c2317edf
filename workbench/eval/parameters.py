"""The ``parameters`` cell of a notebook: what it declares, and whether given values fit it."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from workbench.errors import ReportError

TAG = "parameters"
PLAIN = (str, int, float, bool, type(None))
UNKNOWN = object()  # a default that is an expression: any type may replace it


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One assignment of the cell."""

    name: str
    default: Any
    source: str
    comment: str


def declared(notebook: Mapping[str, Any], name: str) -> dict[str, Parameter]:
    """The parameters of a notebook.

    Args:
        notebook: nbformat 4 content.
        name: what to call the notebook in errors.

    Raises:
        ReportError: not exactly one cell is tagged ``parameters``, or it is not valid Python.
    """
    tagged = [cell for cell in notebook["cells"] if TAG in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise ReportError(
            f"{name} has {len(tagged)} cells tagged {TAG!r} and needs exactly one; in JupyterLab: "
            f"select the cell, Property Inspector, Cell Tags, {TAG}"
        )
    source = tagged[0]["source"]
    try:
        return {parameter.name: parameter for parameter in _assignments(source)}
    except (SyntaxError, tokenize.TokenError) as error:
        raise ReportError(
            f"the {TAG} cell of {name} is not valid Python: {error}; mend that line"
        ) from None


def check(given: Mapping[str, Any], known: Mapping[str, Parameter], name: str) -> None:
    """Refuse a parameter that the notebook does not have, or of another type.

    Raises:
        ReportError: names the value, what is allowed, and the nearest spelling.
    """
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ReportError(
                f"{name} has no parameter {key!r}; {hint}it has {', '.join(known) or 'none'}"
            )
        if not _plain(value):
            raise ReportError(
                f"{key}={value!r} is {type(value).__name__}, which does not travel into a "
                "notebook; "
                "pass plain values: str, int, float, bool, None, and lists, tuples or dicts of them"
            )
        if not _fits(value, known[key].default):
            raise ReportError(
                f"{key}={value!r} is {type(value).__name__}, but {name} has {key} = "
                f"{known[key].source} "
                f"({type(known[key].default).__name__}); pass a value of that type"
            )


def table(given: Mapping[str, Any], known: Mapping[str, Parameter]) -> pd.DataFrame:
    """One row a parameter: the value used, the notebook's default, what it means."""
    return pd.DataFrame(
        [
            {
                "parameter": parameter.name,
                "value": repr(given[parameter.name])
                if parameter.name in given
                else parameter.source,
                "default": parameter.source,
                "meaning": parameter.comment,
            }
            for parameter in known.values()
        ]
    )


def _assignments(source: str) -> Iterator[Parameter]:
    beside, alone = _comments(source)
    for node in ast.parse(source).body:
        for target in _targets(node):
            yield Parameter(
                name=target.id,
                default=_literal(node.value),
                source=ast.unparse(node.value),
                comment=beside.get(node.end_lineno) or alone.get(node.lineno - 1) or "",
            )


def _targets(node: ast.stmt) -> list[ast.Name]:
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    else:
        targets = node.targets if isinstance(node, ast.Assign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


def _comments(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Line number -> comment: those beside code, and those alone on their line."""
    beside, alone = {}, {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            kind = alone if token.line.lstrip().startswith("#") else beside
            kind[token.start[0]] = token.string.lstrip("# ")
    return beside, alone


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return UNKNOWN


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(item) for key, item in value.items())
    return type(value) in PLAIN


def _fits(value: Any, default: Any) -> bool:
    if default is None or default is UNKNOWN or value is None:
        return True
    if isinstance(default, list | tuple):
        return isinstance(value, list | tuple) and (
            not default or all(_fits(item, default[0]) for item in value)
        )
    if type(default) is float:
        return type(value) in (int, float)
    return type(value) is type(default)
