import hashlib
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

import workbench as wb
from workbench.provenance import _git, _visible, differing_versions, gpus, versions

SECRET = "ghp_0123456789abcdef"


@pytest.fixture
def repository(tmp_path):
    """A clean git repository whose origin carries a token."""

    def git(*arguments):
        identity = ("-c", "user.name=A Name", "-c", "user.email=a@example.org")
        subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True
        )

    git("init")
    git("remote", "add", "origin", f"https://someone:{SECRET}@example.org/project.git")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    return tmp_path


def test_it_says_when_and_by_what():
    facts = wb.provenance()
    assert datetime.fromisoformat(facts["created"]).utcoffset().total_seconds() == 0
    assert facts["packages"]["torch"] == versions()["torch"]
    assert facts["cpu"]["cores"] >= 1
    assert {"python", "platform", "gpus", "git"} <= set(facts)


def test_it_is_plain_json():
    assert json.loads(json.dumps(wb.provenance()))["packages"] == versions()


def test_no_home_folder_and_no_user_leak():
    text = json.dumps(wb.provenance())
    for private in (str(Path.home()), str(Path(wb.__file__).parents[1])):
        assert private not in text


def test_git_is_a_commit_and_a_flag_and_nothing_else(repository):
    facts = _git(repository)
    assert set(facts) == {"commit", "dirty"}
    assert len(facts["commit"]) == 40
    assert facts["dirty"] is False


def test_credentials_of_the_origin_are_not_recorded(repository):
    assert SECRET not in json.dumps(_git(repository))


def test_an_edited_tree_is_dirty(repository):
    (repository / "file").write_text("2")
    assert _git(repository)["dirty"] is True


def test_outside_a_repository_there_is_no_commit(tmp_path):
    assert _git(tmp_path) is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert _git(repository) is None


def test_gpus_are_a_list_of_facts():
    for gpu in gpus():
        assert set(gpu) == {"name", "memory_bytes", "compute_capability", "driver", "card"}


def test_the_same_versions_do_not_differ():
    assert differing_versions(wb.provenance()) == {}


def test_differing_and_absent_versions_are_told():
    packages = versions()
    changed = {**packages, "numpy": "0.1"}
    del changed["plotly"]
    assert differing_versions({"packages": changed}) == {
        "numpy": ("0.1", packages["numpy"]),
        "plotly": ("absent", packages["plotly"]),
    }


def test_two_cards_of_a_kind_are_told_apart_without_their_number(monkeypatch):
    told = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": int,
        "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=1, used=0),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlSystemGetDriverVersion": lambda: "580",
        "nvmlDeviceGetUUID": "GPU-{}".format,
    }
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(**told))
    one, other = gpus()
    assert one["card"] == hashlib.sha256(b"GPU-0").hexdigest()[:8] != other["card"]
    assert {**one, "card": ""} == {**other, "card": ""}
    assert one["compute_capability"] == [9, 0]


class Nvml:
    """Three devices, known by their number or by GPU-NUMBER."""

    nvmlDeviceGetHandleByIndex = staticmethod(int)  # noqa: N815
    nvmlDeviceGetHandleByUUID = staticmethod(lambda name: int(name[-1]))  # noqa: N815
    nvmlDeviceGetCount = staticmethod(lambda: 3)  # noqa: N815


@pytest.mark.parametrize(
    ("visible", "devices"),
    [(None, [0, 1, 2]), ("2,0", [2, 0]), ("GPU-1", [1]), ("", []), ("-1", []), ("1,9,2", [1])],
)
def test_devices_are_those_that_cuda_sees_in_its_order(visible, devices, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert _visible(Nvml) == devices
