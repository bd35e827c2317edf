import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from workbench.errors import ReportError, StoreError
from workbench.eval import report

PARAMETERS = 'count = 2  # how many <i>rows</i>\nwords = ["a", "b"]  # what to show\n'
FIGURES = """\
import os, sys
import plotly.graph_objects as go
from IPython.display import display
from workbench.eval.media import flip, scrubber
from PIL import Image
a, b = (Image.new("RGB", (64, 64), c) for c in ("navy", "teal"))
for _ in range(count):
    display(go.Figure(go.Bar(x=["</script><b>x</b>"], y=[1])).update_layout(title="a figure"))
display(flip((a, b), labels=("BF16", "FP8")), scrubber({"BF16": [a, b], "FP8": [a, a]}, [999.0]))
"""
FACTS = """\
import os, sys
print("runs", os.environ["WORKBENCH_RUNS"])
print("python", sys.executable)
print("cwd", os.getcwd())
"""
ELSEWHERE = re.compile(
    r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//[^"'>\s]+|@import|require\(\["""
)


@pytest.fixture
def make_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))

    def make(*sources: str, tags: tuple[str, ...] = ("parameters",)) -> Path:
        cells = [nbformat.v4.new_markdown_cell("# What is <this>?\n\nA small question.")]
        cells.append(nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": list(tags)}))
        cells += [nbformat.v4.new_code_cell(source) for source in sources]
        folder = tmp_path / "notebooks"
        folder.mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "small.ipynb")
        return folder / "small.ipynb"

    return make


def markup(page: Path) -> str:
    """The page without the source of plotly.js, which names map servers and never asks them."""
    return re.sub(r"<script>/\*\*.*?</script>", "", page.read_text(), count=1, flags=re.DOTALL)


def test_a_report_is_one_page_that_loads_nothing(make_notebook, tmp_path):
    page = report(make_notebook(FIGURES, FACTS), count=3)
    assert page.parent == tmp_path / "runs" / "reports"
    assert page.with_suffix(".ipynb").exists()
    text = page.read_text()
    assert page.stat().st_size < 10e6
    assert text.count("plotly.js v") == 1
    assert len(re.findall(r"Plotly\.newPlot\(", markup(page))) == 3
    assert ELSEWHERE.findall(markup(page)) == []
    assert "MathJax.js" not in markup(page)


def test_the_kernel_is_this_interpreter_in_the_notebooks_folder_with_the_callers_runs(
    make_notebook, tmp_path
):
    text = report(make_notebook(FACTS)).read_text()
    assert f"runs {tmp_path / 'runs'}" in text
    assert f"python {sys.executable}" in text
    assert f"cwd {tmp_path / 'notebooks'}" in text


def test_without_a_setting_the_run_folder_is_that_of_the_caller(
    make_notebook, tmp_path, monkeypatch
):
    monkeypatch.delenv("WORKBENCH_RUNS")
    monkeypatch.chdir(tmp_path)
    page = report(make_notebook(FACTS))
    assert page.parent == tmp_path / "runs" / "reports"
    assert f"runs {tmp_path / 'runs'}" in page.read_text()


def test_parameters_are_shown_with_defaults_and_escaped(make_notebook):
    text = report(make_notebook("count"), count=5).read_text()
    assert re.search(r"<td>count</td>\s*<td>5</td>\s*<td>2</td>\s*<td>how many &lt;i&gt;rows", text)
    assert "<title>What is &lt;this&gt;?</title>" in text


def test_other_parameters_are_another_page(make_notebook):
    notebook = make_notebook("count")
    assert report(notebook).name == "small.html"
    assert re.fullmatch(r"small-[0-9a-f]{8}\.html", report(notebook, count=3).name)


def test_output_names_the_page(make_notebook, tmp_path):
    assert (
        report(make_notebook("count"), output=tmp_path / "x" / "mine.html")
        == tmp_path / "x" / "mine.html"
    )


def test_a_raising_cell_keeps_the_report_so_far_and_fails(make_notebook, tmp_path):
    notebook = make_notebook('print("before")', 'raise ValueError("too <small>")', 'print("never")')
    with pytest.raises(
        ReportError, match=r"cell In \[3\] of small.ipynb raised ValueError: too <small>"
    ) as error:
        report(notebook)
    page = tmp_path / "runs" / "reports" / "small.html"
    assert str(page) in str(error.value)
    text = page.read_text()
    assert (
        "This report is not complete: cell In [3] of small.ipynb raised ValueError: too "
        "&lt;small&gt;" in text
    )
    assert "before" in text
    assert ">never" not in text


def test_a_dying_kernel_keeps_the_report_so_far_and_fails(make_notebook, tmp_path):
    with pytest.raises(ReportError, match=r"the kernel of small\.ipynb died"):
        report(make_notebook('print("before")', "import os; os._exit(3)"))
    assert "before" in (tmp_path / "runs" / "reports" / "small.html").read_text()


def test_a_script_that_reports_a_raising_notebook_exits_non_zero(make_notebook):
    code = f"import workbench as wb; wb.report({str(make_notebook('1 / 0'))!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ReportError: cell In [2] of small.ipynb raised ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"cuont": 3}, "did you mean 'count'"),
        ({"count": "3"}, "count='3' is str"),
        ({"output": "x.pdf"}, "x.pdf"),
    ],
)
def test_a_bad_request_is_refused_before_the_run(make_notebook, tmp_path, given, named):
    notebook = make_notebook("from pathlib import Path; Path('ran').touch()")
    with pytest.raises(ReportError, match=named):
        report(notebook, **given)
    assert not (tmp_path / "notebooks" / "ran").exists()


def test_a_notebook_without_the_tag_is_refused(make_notebook):
    with pytest.raises(ReportError, match="has 0 cells tagged 'parameters' and needs exactly one"):
        report(make_notebook("count", tags=()))


def test_what_is_no_notebook_is_refused(tmp_path):
    with pytest.raises(ReportError, match=r"there is no notebook 'nowhere\.ipynb'"):
        report("nowhere.ipynb")
    (tmp_path / "x.ipynb").write_text("not json")
    with pytest.raises(ReportError, match="is no notebook"):
        report(tmp_path / "x.ipynb")


def test_an_output_that_cannot_be_written_is_refused_before_the_run(make_notebook):
    with pytest.raises((ReportError, StoreError), match="/proc"):
        report(make_notebook("count"), output="/proc/nowhere/x.html")


@pytest.mark.browser
def test_the_report_opens_offline_without_console_errors(make_notebook, open_page):
    page = open_page(report(make_notebook(FIGURES)))
    assert page.console == []
    scripts = r"<script.*?</script>"
    assert ELSEWHERE.findall(re.sub(scripts, "", page.dom, flags=re.DOTALL)) == []
    assert page.dom.count('class="main-svg"') >= 2  # both figures drew themselves
    assert len(re.findall(r'<img [^>]*src="data:image', page.dom)) == 6
