"""Importing is cheap, heavy libraries have one owner each, and imports point one way."""

import ast
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import workbench as wb

ROOT = Path(wb.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
# Files that may import a library, also inside functions; several where parts of it run in another
# process (workers) or for another task (training).
OWNERS = {
    "av": ("videos.py",),
    "auto_round": ("quant/autoround.py", "quant/autoround_cures.py"),
    "cv2": (
        "eval/drift.py",
        "eval/fidelity.py",
        "eval/flip_colours.py",
        "eval/flip_error.py",
        "eval/frame_shift.py",
        "eval/optical_flow.py",
    ),
    "diffusers": (
        "quant/pipelines.py",
        "serve/decoding.py",
        "serve/plain.py",
        "wan_prompts.py",
        "zoo/builders.py",
        "zoo/training/export.py",
        "zoo/training/video/export.py",
    ),
    "flip_evaluator": (),
    "modelopt": ("quant/modelopt.py",),
    "nbconvert": ("eval/report.py",),
    "papermill": ("eval/report.py",),
    "plotly": (
        "eval/bands.py",
        "eval/curve_figures.py",
        "eval/figure_style.py",
        "eval/figures.py",
        "eval/layer_figures.py",
        "eval/prompt_figures.py",
        "eval/score_figures.py",
        "eval/speed_figures.py",
        "eval/throughput_figure.py",
    ),
    "pynvml": ("provenance.py",),
    "skimage": (),
    "torch": (
        "bf16.py",
        "eval/perceptual.py",
        "quant/autoround.py",
        "quant/autoround_cures.py",
        "quant/autoround_mixed.py",
        "quant/autoround_weights.py",
        "quant/estimate.py",
        "quant/calibration.py",
        "quant/fakes.py",
        "quant/isolation.py",
        "quant/modelopt.py",
        "quant/modelopt_weights.py",
        "quant/numerics.py",
        "quant/packing.py",
        "quant/pipelines.py",
        "quant/ranges.py",
        "quant/recorded.py",
        "quant/sensitivity.py",
        "serve/cpu/*.py",
        "serve/kernel_times.py",
        "serve/layer_outputs.py",
        "serve/meter.py",
        "serve/modules.py",
        "serve/omni.py",
        "serve/plugin/*.py",
        "serve/readback.py",
        "serve/recorder.py",
        "serve/decoding.py",
        "serve/plain.py",
        "serve/stored_weights.py",
        "serve/tracing.py",
        "torchvision_ops.py",
        "zoo/builders.py",
        "zoo/training/*.py",
    ),
    "torchmetrics": ("eval/perceptual.py",),
    "torchvision": (),
    "transformers": (
        "eval/perceptual.py",
        "quant/dataset.py",
        "zoo/builders.py",
        "zoo/tiny_tokenizers.py",
        "zoo/training/export.py",
        "zoo/training/video/export.py",
        "zoo/training/tokenizer.py",
    ),
    "vllm": ("serve/cpu/*.py", "serve/plugin/*.py", "serve/modules.py", "serve/tracing.py"),
    "vllm_omni": (
        "serve/cpu/*.py",
        "serve/plugin/*.py",
        "serve/in_flight.py",
        "serve/omni.py",
        "serve/peaks.py",
        "serve/server_main.py",
        "serve/tracing.py",
    ),
}
BASE = {
    *(
        "audits",
        "calibrations",
        "checkpoints",
        "errors",
        "first_frames",
        "followed",
        "pixels",
        "provenance",
        "records",
        "recipes",
        "sampling",
        "schemes",
        "spec",
        "specs",
        "speed",
        "store",
        "trajectories",
        "videos",
    ),
    *("bf16", "engine_logs", "torchvision_ops", "wan_prompts"),
}
# Part of the package -> the parts it may import.
ALLOWED = {
    "audits": {"schemes"},
    "bf16": set(),
    "engine_logs": set(),
    "errors": set(),
    "torchvision_ops": set(),
    "wan_prompts": set(),
    "provenance": set(),
    "schemes": set(),
    "spec": {"errors"},
    "calibrations": {"spec"},
    "recipes": {"calibrations", "schemes", "spec"},
    "sampling": {"spec"},
    "specs": {"recipes", "sampling", "spec"},
    "store": {"errors", "provenance", "spec"},
    "checkpoints": {"errors", "recipes", "specs", "store"},
    "followed": {"audits", "spec", "specs", "store"},
    "speed": {"audits", "spec", "specs", "store"},
    "records": {
        "audits",
        "checkpoints",
        "errors",
        "specs",
        "speed",
        "store",
        "trajectories",
        "videos",
    },
    "trajectories": {"store"},
    "videos": {"errors"},
    "pixels": set(),
    "first_frames": {"errors", "pixels", "records", "store"},
    "zoo": BASE,
    "quant": BASE | {"zoo"},
    "serve": BASE | {"zoo"},
    "eval": BASE | {"zoo"},
    "noise": BASE | {"zoo", "serve", "eval"},
}


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
    code = "import time; t = time.perf_counter(); import workbench; print(time.perf_counter() - t)"
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
