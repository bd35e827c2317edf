import errno
import json
import os
import warnings

import pytest

import workbench as wb
from workbench import store
from workbench.errors import StoreError
from workbench.specs import Sampling

SPEC = Sampling(num_inference_steps=4)


def finished(kind="generations", spec=SPEC, **content):
    folder = store.prepare(kind, spec)
    store.commit(folder, spec, content)
    return folder


def fail_with(number):
    def failing(*_):
        raise OSError(number, os.strerror(number))

    return failing


def test_the_run_folder_is_the_environments_or_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "elsewhere"))
    assert store.root() == tmp_path / "elsewhere"
    monkeypatch.setenv("WORKBENCH_RUNS", "")
    monkeypatch.chdir(tmp_path)
    assert store.root() == tmp_path / "runs"


def test_a_folder_is_named_by_its_specs_key(runs):
    assert store.path("generations", SPEC) == runs / "generations" / SPEC.key


def test_only_a_manifest_makes_a_folder_complete(runs):
    folder = store.prepare("generations", SPEC)
    assert not store.has("generations", SPEC)
    with pytest.raises(StoreError, match=r"holds no manifest\.json.*run it again"):
        store.read(folder)
    store.commit(folder, SPEC, {"items": []})
    assert store.has("generations", SPEC)


def test_a_manifest_holds_spec_content_and_provenance(runs):
    manifest = store.read(finished(items=["a"]))
    assert manifest["schema_version"] == store.SCHEMA_VERSION
    assert manifest["spec_type"] == "Sampling"
    assert Sampling(**manifest["spec"]) == SPEC
    assert manifest["items"] == ["a"]
    assert manifest["provenance"]["packages"]


def test_preparing_again_keeps_what_is_there(runs):
    folder = store.prepare("generations", SPEC)
    store.write_json(folder / "first.json", 1)
    assert store.prepare("generations", SPEC) == folder
    assert [file.name for file in folder.iterdir()] == ["first.json"]


def test_force_starts_from_nothing(runs):
    folder = finished()
    assert store.prepare("generations", SPEC, force=True) == folder
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("operation", ["fsync", "rename"])
def test_a_failed_write_leaves_the_old_file_whole(runs, monkeypatch, operation):
    folder = store.prepare("generations", SPEC)
    store.write_json(folder / "facts.json", {"version": 1})
    if operation == "fsync":
        monkeypatch.setattr(os, "fsync", fail_with(errno.ENOSPC))
    else:
        monkeypatch.setattr("pathlib.Path.replace", fail_with(errno.EROFS))
    with pytest.raises(StoreError, match=r"cannot write .*facts\.json .*what was finished"):
        store.write_json(folder / "facts.json", {"version": 2})
    assert json.loads((folder / "facts.json").read_text()) == {"version": 1}
    assert [file.name for file in folder.iterdir()] == ["facts.json"]


def test_a_write_that_is_cut_off_is_no_file(runs, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    folder = store.prepare("generations", SPEC)
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.commit(folder, SPEC, {})
    assert not store.has("generations", SPEC)
    monkeypatch.undo()
    monkeypatch.setenv("WORKBENCH_RUNS", str(runs))
    assert store.has("generations", SPEC) is False
    store.commit(store.prepare("generations", SPEC), SPEC, {})
    assert store.has("generations", SPEC)


def test_a_full_disk_is_found_before_the_work(runs, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail_with(errno.ENOSPC))
    with pytest.raises(StoreError, match=r"No space left.*set WORKBENCH_RUNS"):
        store.prepare("generations", SPEC)


def test_too_little_space_is_said_in_numbers(runs):
    with pytest.raises(StoreError, match=r"GB free and\s+about 1000000000\.00 GB are needed"):
        store.prepare("generations", SPEC, needed_bytes=10**18)


@pytest.mark.parametrize("place", ["below a file", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written_is_refused(place, tmp_path, monkeypatch):
    if place == "below a file":
        (tmp_path / "file").touch()
        place = str(tmp_path / "file" / "runs")
    monkeypatch.setenv("WORKBENCH_RUNS", place)
    with pytest.raises(StoreError, match="cannot write to the run folder"):
        store.prepare("generations", SPEC)


def test_a_broken_manifest_is_named(runs):
    folder = finished()
    (folder / store.MANIFEST).write_text('{"spec": ')
    with pytest.raises(StoreError, match=r"manifest\.json is not readable.*delete .* run it again"):
        store.read(folder)


def test_a_hit_of_the_same_versions_is_silent(runs):
    folder = finished()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.open_complete("generations", SPEC) == folder


def test_a_hit_of_other_versions_warns_with_the_difference(runs):
    folder = finished()
    manifest = store.read(folder)
    now = manifest["provenance"]["packages"]["numpy"]
    manifest["provenance"]["packages"]["numpy"] = "0.1"
    store.write_json(folder / store.MANIFEST, manifest)
    with pytest.warns(UserWarning, match=rf"made by numpy 0\.1 \(now {now}\); force=True"):
        assert store.open_complete("generations", SPEC) == folder


def test_a_key_may_be_shortened_while_it_is_unique(runs):
    folder = finished()
    assert store.find(SPEC.key) == folder
    assert store.find(SPEC.key[:5]) == folder


def test_an_ambiguous_key_lists_what_it_matches(runs):
    finished("generations")
    finished("checkpoints")
    with pytest.raises(StoreError, match=rf"checkpoints/{SPEC.key}, generations/{SPEC.key}"):
        wb.load(SPEC.key)


def test_an_unknown_or_unfinished_key_matches_nothing(runs):
    store.prepare("generations", SPEC)
    for key in (SPEC.key, "ffff"):
        with pytest.raises(StoreError, match=rf"'{key}' matches nothing in {runs}"):
            wb.load(key)


def test_an_unknown_kind_is_refused(runs):
    finished("sculptures")
    with pytest.raises(StoreError, match="kind 'sculptures'; known kinds are checkpoints"):
        wb.load(SPEC.key)


def test_text_is_stored_as_it_is(runs):
    folder = store.prepare("generations", SPEC)
    store.write_json(folder / "facts.json", {"prompt": "für 茶壶"})
    assert "für 茶壶" in (folder / "facts.json").read_text()
