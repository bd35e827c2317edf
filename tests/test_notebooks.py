"""House rules of the notebooks, checked on the files as they lie in git."""

import ast
import json
from pathlib import Path

import nbformat
import pytest
from PIL import Image

import workbench as wb
from workbench.eval.parameters import declared

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda file: file.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks():
    assert {file.stem for file in NOTEBOOKS} >= {
        "00_environment",
        "01_quantize",
        "02_generate",
        "02_precision_audit",
        "03_launch_and_layouts",
        "04_fidelity",
        "05_trajectories",
        "06_video",
        "07_parallelism",
        "08_throughput",
        "09_report",
    }


def test_notebooks_are_valid_and_for_any_python_kernel(notebook):
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"


def test_notebooks_store_no_outputs(notebook):
    assert all(not cell.outputs and cell.execution_count is None for cell in code(notebook))


def test_notebooks_define_no_functions_and_no_classes(notebook):
    for cell in code(notebook):
        kinds = {type(node) for node in ast.walk(ast.parse(cell.source))}
        assert not kinds & {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda}


def test_every_parameter_is_explained(notebook):
    parameters = declared(notebook, "notebook")
    assert parameters
    assert [name for name, parameter in parameters.items() if not parameter.comment] == []


def test_a_notebook_opens_with_its_question(notebook):
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.splitlines()[0].startswith("# ")
    assert first.source.splitlines()[0].endswith("?")


def test_no_cell_is_empty(notebook):
    assert all(cell.source.strip() for cell in notebook.cells)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("00_environment", {}),
        ("01_quantize", {}),
        pytest.param(
            "02_precision_audit",
            {"calibration_prompts": ["a mug"], "calibration_steps": 2, "num_inference_steps": 2},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "02_generate",
            {"seeds": [0], "num_inference_steps": 2, "quantization": "int8"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "03_launch_and_layouts",
            {"launches": [{"cfg_parallel_size": 2}, {"ring_degree": 2}]},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "04_fidelity",
            {
                "prompts": ["a car"],
                "seeds": [0],
                "num_inference_steps": 2,
                "online": ["INT8"],
                "w4a16_iters": [],
                "diffusers_floor": False,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "06_video",
            {"num_inference_steps": 2, "online": ["INT8"], "w4a16_iters": []},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "05_trajectories",
            {
                "prompts": ["a car"],
                "seeds": [0],
                "num_inference_steps": 2,
                "online": ["INT8"],
                "w4a16": False,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "07_parallelism",
            {
                "seeds": [0],
                "num_inference_steps": 2,
                "layouts": [{"tensor_parallel_size": 2}],
                "requests": 2,
            },
            marks=[pytest.mark.slow, pytest.mark.timeout(600)],  # three engines, two of two workers
        ),
        pytest.param(
            "08_throughput",
            {
                "precisions": ["INT8"],
                "concurrencies": [1, 2],
                "rounds": 2,
                "kernels": False,
            },
            marks=pytest.mark.slow,
        ),
        ("09_report", {"prompts": ["a car"], "seeds": [0], "num_inference_steps": 2}),
        pytest.param(
            "09_report",
            {
                "model": "embedded:wan",
                "prompts": ["a ball rolling to the right on grass"],
                "seeds": [0],
                "num_inference_steps": 2,
                "precisions": ["INT8"],
            },
            marks=pytest.mark.slow,
        ),
    ],
)
def test_it_runs_end_to_end_on_the_embedded_model(name, parameters, runs, monkeypatch):
    # With it ipykernel gives the kernel a standard output without a descriptor, unlike for users.
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    file = next(file for file in NOTEBOOKS if file.stem == name)
    page = wb.report(file, **parameters)
    assert page.is_relative_to(runs)
    assert page.stat().st_size < 10e6


_ONE = {"prompts": ["a car"], "seeds": [0], "more_sampling": {"num_frames": 5}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("02_precision_audit", {"calibration_steps": 2}),
        ("02_generate", _ONE),
        ("04_fidelity", _ONE | {"online": ["INT8"], "w4a16_iters": [], "diffusers_floor": False}),
        ("05_trajectories", _ONE | {"online": ["INT8"], "w4a16": False}),
        ("06_video", {"online": [], "w4a16_iters": [2], "calibration_steps": 2}),
        ("09_report", _ONE | {"precisions": ["W4A16"], "w4a16_iters": 2}),
    ],
)
def test_it_takes_an_image_to_video_model(name, parameters, tiny_i2v, runs, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    frame = tmp_path / "frame.png"
    Image.effect_noise((128, 128), 60).convert("RGB").save(frame)
    page = wb.report(
        next(file for file in NOTEBOOKS if file.stem == name),
        model=str(tiny_i2v),
        first_frame=str(frame),
        num_inference_steps=3,
        **parameters,
    )
    drawn = [json.loads(file.read_text())["spec"] for file in runs.glob("generations/*/*.json")]
    assert drawn
    assert all(spec["images"] for spec in drawn)
    assert "transformer_2" in page.read_text()


@pytest.mark.slow
def test_06_video_leaves_out_what_a_model_cannot_draw(tiny_wan, runs, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    file = next(file for file in NOTEBOOKS if file.stem == "06_video")
    short = {"num_frames": 1, "num_inference_steps": 3, "online": ["INT8"], "w4a16_iters": []}
    page = wb.report(file, model=str(tiny_wan), **short).read_text()
    assert "I2V: left out, this model draws from prompts alone" in page
    assert "one frame has no time to show" in page
