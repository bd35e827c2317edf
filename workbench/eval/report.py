"""A notebook becomes one HTML page. The only importer of papermill and nbconvert."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from workbench import store
from workbench.errors import ReportError
from workbench.eval import parameters as cell
from workbench.eval.media import read_template

ENVIRONMENT = {
    "PLOTLY_RENDERER": "plotly_mimetype"
}  # figures as data: plotly.js goes into the page once


def report(notebook: str | Path, *, output: str | Path | None = None, **parameters: Any) -> Path:
    """Run a notebook with these parameters and write it as one HTML page that opens offline.

    The kernel is this interpreter, started in the notebook's folder; runs land in the caller's run
    folder.

    Args:
        notebook: an ``.ipynb`` with one cell tagged ``parameters``.
        output: the ``.html`` to write, the executed notebook beside it; None takes
            ``runs/reports/NAME.html``, with a hash of the parameters in the name where any are
            given.
        **parameters: replace the defaults of the tagged cell; plain values of the same type.

    Returns:
        The HTML file.

    Raises:
        ReportError: before the run: no such notebook, no tagged cell, a misspelt parameter or one
            of another type; after it: a cell raised. What ran until then is kept in the HTML.
    """
    import nbformat

    source = Path(notebook)
    known = cell.declared(_read(source), source.name)
    cell.check(parameters, known, source.name)
    page = _target(source, output, parameters)
    executed = page.with_suffix(".ipynb")
    failure = _execute(source, executed, parameters)
    if not executed.exists():
        raise ReportError(f"{source.name} did not start: {failure}")
    content = nbformat.read(executed, as_version=4)
    summary = cell.table(parameters, known).to_html(index=False, border=0)
    store.write_bytes(page, _page(content, summary, failure=failure, stem=source.stem).encode())
    if failure:
        raise ReportError(f"{failure}; the report until there is {page}")
    return page


def _read(source: Path) -> Mapping[str, Any]:
    import nbformat

    try:
        return nbformat.read(source, as_version=4)
    except FileNotFoundError:
        raise ReportError(
            f"there is no notebook {str(source)!r}; give the path of an .ipynb file"
        ) from None
    except (OSError, ValueError, nbformat.ValidationError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ReportError(
            f"{str(source)!r} is no notebook ({reason}); give the path of an .ipynb file"
        ) from None


def _target(source: Path, output: str | Path | None, parameters: Mapping[str, Any]) -> Path:
    page = (
        Path(output).absolute()
        if output
        else store.root() / "reports" / f"{source.stem}{_suffix(parameters)}.html"
    )
    if page.suffix != ".html":
        raise ReportError(f"output={str(output)!r} does not end in .html; give the page to write")
    if page.with_suffix(".ipynb") == source.absolute():
        raise ReportError(
            f"output={str(output)!r} would overwrite {source}; give another name or folder"
        )
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(
            f"cannot make the folder {page.parent} ({error.strerror}); give another output"
        ) from None
    return page


def _suffix(parameters: Mapping[str, Any]) -> str:
    content = json.dumps(parameters, sort_keys=True)
    return f"-{hashlib.sha256(content.encode()).hexdigest()[:8]}" if parameters else ""


def _execute(source: Path, executed: Path, parameters: Mapping[str, Any]) -> str:
    """Run the notebook; returns what stopped it, or an empty text."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    store.write_bytes(executed, b"")  # proves the folder writable before the run
    executed.unlink()
    try:
        papermill.execute_notebook(
            source.absolute(),
            executed,
            dict(parameters),
            cwd=source.absolute().parent,
            kernel_name="python3",
            language="python",
            kernel_manager_class=_this_interpreter(store.root()),
        )
    except PapermillExecutionError as error:
        return f"cell In [{error.exec_count}] of {source.name} raised {error.ename}: {error.evalue}"
    except (DeadKernelError, CellTimeoutError) as error:
        return f"the kernel of {source.name} died: {str(error).strip() or type(error).__name__}"
    return ""


def _this_interpreter(runs: Path) -> type:
    """A kernel manager that starts ``sys.executable``, whichever kernels are installed.

    Papermill starts the kernel from the notebook's folder: ``runs`` was resolved before that.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class ThisInterpreter(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(
                argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                display_name="Python 3",
                language="python",
            )

        async def start_kernel(self, **kwargs: Any) -> Any:
            env = {
                **os.environ,
                **(kwargs.pop("env", None) or {}),
                **ENVIRONMENT,
                "WORKBENCH_RUNS": str(runs),
            }
            return await super().start_kernel(env=env, **kwargs)

    return ThisInterpreter


def _page(notebook: Any, parameters: str, *, failure: str, stem: str) -> str:
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    from workbench.eval.figures import plotly_js

    titles = [
        line[2:]
        for c in notebook.cells
        if c.cell_type == "markdown"
        for line in c.source.splitlines()
        if line.startswith("# ")
    ]
    _embed_figures(notebook)
    notebook.cells = [
        c for c in notebook.cells if "papermill-error-cell-tag" not in c.metadata.get("tags", [])
    ]
    body, _ = HTMLExporter(template_name="basic", embed_images=True).from_notebook_node(notebook)
    banner = (
        f'<p class="failed" role="alert">This report is not complete: {escape(failure)}.</p>'
        if failure
        else ""
    )
    return Template(read_template("report.html")).substitute(
        title=escape(titles[0] if titles else stem),
        banner=banner,
        body=body,
        parameters=parameters,
        css=read_template("report.css")
        + HtmlFormatter(style="default").get_style_defs(".highlight"),
        plotly_js=plotly_js(),
    )


def _embed_figures(notebook: Any) -> None:
    """Turn plotly's data into HTML, and drop whatever other form of the same figure there is."""
    from workbench.eval.figures import MIMETYPE, to_div

    for c in notebook.cells:
        for shown in c.get("outputs", []):
            if MIMETYPE in shown.get("data", {}):
                shown.data = {"text/html": to_div(shown.data[MIMETYPE])}
