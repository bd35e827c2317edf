"""Importing is cheap, heavy libraries have one owner each, and imports point one way."""

import ast
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from import_rules import ALLOWED, OWNERS

import workbench as wb

ROOT = Path(wb.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def name(file):
    return file.relative_to(ROOT).as_posix()


def imported(file):
    """Modules that a file imports at run time, wherever in it."""
    tree = ast.parse(file.read_text())
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "workbench":
            yield from (f"workbench.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def fresh(code):
    """What a line of code prints in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_importing_the_workbench_takes_no_torch():
    loaded = fresh("import sys, workbench; print(*sys.modules)").split()
    heavy = {*OWNERS, "numpy", "pandas", "pydantic"}
    assert heavy & {module.split(".")[0] for module in loaded} == set()


def test_importing_the_workbench_takes_well_under_a_second():
    """Processor time, as other work may share the machine."""
    code = "import time; t = time.process_time(); import workbench; print(time.process_time() - t)"
    assert min(float(fresh(code)) for _ in range(3)) < 0.5


def test_specs_and_records_take_no_torch():
    loaded = fresh("import sys, workbench as wb; wb.PromptSet('x'); wb.load; print(*sys.modules)")
    assert {"torch", "vllm", "diffusers", "plotly"} & set(loaded.split()) == set()


def test_compare_and_report_load_their_libraries_on_use():
    loaded = fresh("import sys, workbench as wb; wb.compare; wb.report; print(*sys.modules)")
    assert {"torch", "cv2", "plotly", "papermill", "nbconvert"} & set(loaded.split()) == set()


@pytest.mark.parametrize("public", wb.__all__)
def test_public_names_resolve_and_are_documented(public):
    assert getattr(wb, public).__doc__


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(AttributeError, match=r"has no 'compress'; it has .*quantize"):
        _ = wb.compress
    assert set(dir(wb)) == set(wb.__all__)


def test_provenance_stays_a_function_after_its_module_was_imported():
    code = "import workbench.store, workbench as wb; print(callable(wb.provenance))"
    assert fresh(code).strip() == "True"


@pytest.mark.parametrize("first", ["wb.serve", "wb.launch", "import workbench.serve.launching"])
def test_serve_is_the_part_and_the_function_of_its_name(first):
    code = (
        f"import workbench as wb; {first}\n"
        "import inspect, workbench.serve.launching as launching\n"
        "print(callable(wb.serve), wb.serve.launching is launching, wb.serve is wb.serve)\n"
        "print(next(iter(inspect.signature(wb.serve).parameters)))"
    )
    assert fresh(code).split() == ["True", "True", "True", "model"]


@pytest.mark.parametrize("library", OWNERS)
def test_a_heavy_library_is_imported_by_its_owners_only(library):
    users = {name(f) for f in MODULES if library in {m.split(".")[0] for m in imported(f)}}
    strangers = {u for u in users if not any(fnmatch(u, owner) for owner in OWNERS[library])}
    assert strangers == set()


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_imports_point_one_way(file):
    part = name(file).split("/")[0].removesuffix(".py")
    inner = {m.split(".")[1] for m in imported(file) if m.startswith("workbench.")}
    allowed = set(ALLOWED) if part == "__init__" else ALLOWED[part] | {part}
    assert inner <= allowed


def test_the_scan_sees_imports_in_functions_but_not_those_for_types(tmp_path):
    file = tmp_path / "some.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "def f():\n    from workbench import store\n    import vllm.platforms\n"
    )
    assert list(imported(file)) == ["typing", "workbench.store", "vllm.platforms"]
