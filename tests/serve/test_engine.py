"""Launch, interrupt, resume, fail and launch again, in the real engine on CPU."""

import asyncio
import json
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from workbench import store
from workbench.errors import LaunchFailed, ModelNotFound, PrecisionNotApplied, SpecError, StoreError
from workbench.records import Checkpoint
from workbench.serve.engine import Engine

STEPS = wb.Sampling(num_inference_steps=2)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts its background jobs with SIGINT ignored; here it interrupts all the same."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_keeps_what_is_finished_and_the_same_call_goes_on(
    tiny_qwen: Path, runs: Path, interruptible: None
) -> None:
    slow = wb.Sampling(num_inference_steps=12)
    with wb.launch(str(tiny_qwen)) as engine:
        watcher = threading.Thread(target=_interrupt_after_one, args=(runs,))
        watcher.start()
        with pytest.raises(KeyboardInterrupt):
            engine.generate("a car", seeds=range(4), sampling=slow)
        watcher.join()
        finished = {file: file.stat().st_mtime_ns for file in runs.rglob("generation.json")}
        assert 1 <= len(finished) < 4
        assert not list(runs.rglob(store.MANIFEST))
        result = engine.generate("a car", seeds=range(4), sampling=slow)
    assert len(result) == 4
    assert {file: file.stat().st_mtime_ns for file in finished} == finished


def _interrupt_after_one(runs: Path) -> None:
    while not list(runs.rglob("generation.json")):
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_full_disk_keeps_what_is_finished_and_the_same_call_goes_on(
    tiny_qwen: Path, runs: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with wb.launch(str(tiny_qwen)) as engine:
        engine.generate("a car", sampling=STEPS)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # no file grows beyond
        try:
            with pytest.raises(StoreError, match="what was finished before is kept"):
                engine.generate("a car", seeds=(0, 1), sampling=STEPS)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not list(runs.rglob("*.partial"))
        assert len(engine.generate("a car", seeds=(0, 1), sampling=STEPS)) == 2


def test_finished_sets_come_from_the_store_unless_forced(
    tiny_qwen: Path, runs: Path, request: pytest.FixtureRequest
) -> None:
    with wb.launch(str(tiny_qwen)) as engine:
        first = engine.generate("a car", sampling=STEPS)
        again = engine.generate("a car", sampling=STEPS)
        assert again[0].elapsed_s == first[0].elapsed_s
        forced = engine.generate("a car", sampling=STEPS, force=True)
        assert forced[0].elapsed_s != first[0].elapsed_s
        assert forced[0].sha256 == first[0].sha256
    assert wb.load(first.key)[0].sha256 == first[0].sha256
    request.getfixturevalue("nothing_starts")
    assert wb.generate(str(tiny_qwen), "a car", sampling=STEPS).key == first.key


def test_a_closed_engine_says_so(tiny_qwen: Path, runs: Path) -> None:
    with wb.launch(str(tiny_qwen)) as engine:
        pass
    with pytest.raises(LaunchFailed, match="closed"):
        engine.generate("a car", sampling=STEPS)


def test_a_failed_launch_leaves_room_for_the_next(
    tiny_qwen: Path, tmp_path: Path, runs: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny_qwen, broken)
    (weights,) = (broken / "transformer").glob("*.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100_000])
    with pytest.raises(ModelNotFound, match=weights.name):  # seen in its header, before any load
        wb.launch(str(broken))
    weights.write_bytes(whole)
    config = broken / "vae" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "z_dim": 12}))
    with pytest.raises(LaunchFailed, match="broken"):
        wb.launch(str(broken))
    with wb.launch(str(tiny_qwen), quantization="int8") as engine:
        assert engine.audit.requested == "INT8"


def test_what_does_not_run_as_asked_is_refused(
    tiny_qwen: Path, w4a16: Checkpoint, tmp_path: Path, runs: Path
) -> None:
    spec = wb.LaunchSpec(model=w4a16.model, recipe=w4a16.recipe)
    with pytest.raises(PrecisionNotApplied, match="W4A16 was asked for"):
        Engine(spec, tiny_qwen)  # the checkpoint's folder holds the 16-bit model after all
    with pytest.raises(PrecisionNotApplied, match="BF16 was asked for"):
        Engine(wb.LaunchSpec(model=w4a16.model), w4a16.path)  # a quantized one passed off as 16 bit
    assert not list(runs.rglob("*.png"))


def test_it_launches_inside_a_running_event_loop(tiny_qwen: Path, runs: Path) -> None:
    async def cell() -> int:
        return len(wb.generate(str(tiny_qwen), "a car", sampling=STEPS))

    assert asyncio.run(cell()) == 1


def test_video_frames_are_kept(tiny_wan: Path, runs: Path) -> None:
    sampling = wb.Sampling(num_inference_steps=2, num_frames=5)
    result = wb.generate(str(tiny_wan), "a car", sampling=sampling, quantization="fp8")
    assert len(result[0].frames) == 5
    assert result[0].trajectory.latents.shape[0] == 3
    assert result.audit.verdict == "as requested"  # every linear of Wan's blocks


def test_flux_keeps_its_dual_stream_blocks_by_design(tiny_flux: Path, runs: Path) -> None:
    result = wb.generate(str(tiny_flux), "a car", sampling=STEPS, quantization="int8")
    kept = [layer for layer in result.audit.kept if "transformer.transformer_blocks" in layer.name]
    assert kept
    assert all(layer.by_design and layer.reason for layer in kept)
    assert any("single_transformer_blocks" in x.name and x.quantized for x in result.audit.layers)


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {}, "at least 1"),
        (3, {}, "prompts=3.*a list"),
        ({"a car": 0}, {}, "prompts={'a car': 0}.*a list"),
        (["a car", 3], {}, r"^PromptSet\(prompts.1=3\): [^\n]*$"),
        ("a car", {"seeds": ()}, "at least 1"),
        ("a car", {"seeds": 3}, "seeds=3.*a list"),
        ("a car", {"seeds": "12"}, "seeds='12'.*a list"),
        ("a car", {"repeat": -1}, "repeat=-1"),
        ("a car", {"sampling": 3}, "give workbench.Sampling"),
        ("a car", {"runtime": "vllm-omni-server"}, "workbench.serve starts it"),
        ("a car", {"seeds": (1, 1)}, "distinct"),
        ("a car", {"sampling": wb.Sampling(num_frames=5)}, "draws images"),
    ],
)
def test_a_bad_request_is_refused_before_anything_loads(
    tiny_qwen: Path,
    runs: Path,
    nothing_starts: None,
    prompts: object,
    options: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(SpecError, match=message):
        wb.generate(str(tiny_qwen), prompts, **options)
    assert not runs.exists()


def test_an_unwritable_run_folder_is_refused_before_anything_loads(
    tiny_qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "file" / "runs"))
    with pytest.raises(StoreError, match="WORKBENCH_RUNS"):
        wb.generate(str(tiny_qwen), "a car", sampling=STEPS)


@pytest.mark.parametrize("model", [None, 3, "", [], wb.Sampling()], ids=repr)
def test_what_names_no_model_is_refused(nothing_starts: None, model: object) -> None:
    for start in (wb.launch, wb.serve):
        with pytest.raises(SpecError, match=r"ModelRef\(source="):
            start(model)
