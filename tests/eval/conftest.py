"""Generation sets without an engine, through the real records and store; a headless browser."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from workbench import store
from workbench.audits import Audit, LayerCensus
from workbench.recipes import QuantRecipe
from workbench.records import Generation, GenerationSet, Trajectory
from workbench.specs import GenerateSpec, LaunchSpec, ModelRef, PromptSet, Sampling

PROMPTS = ("a teapot on a wooden table", "a red <b>car</b> & a tree")
SEEDS = (0, 7)
STEPS = 4
SIDE = 32
Maker = Callable[..., GenerationSet]


def launch_of(precision: str, **changes: Any) -> LaunchSpec:
    recipe = QuantRecipe(method="auto-round", scheme="W4A16") if precision == "W4A16" else None
    online = precision.lower() if precision in ("FP8", "INT8") else None
    values = {"model": ModelRef("embedded:test"), "recipe": recipe, "quantization": online}
    return LaunchSpec(**(values | changes))


def audit_of(precision: str, **changes: Any) -> Audit:
    quantized = precision != "BF16"
    layers = tuple(
        LayerCensus(
            name=f"transformer_blocks.{i}.{name}",
            layer="RowParallelLinear",
            method="Method" if inside else "none",
            kernel="SomeKernel" if inside else "torch",
            weight_dtype="int8" if inside else "bfloat16",
            weight_bytes=2**20,
            parameters=2**20,
            quantized=inside,
            reference_kernel=inside and precision == "FP8",
            scheme=precision if inside else "BF16",
            found=precision if inside else "BF16",
            file_dtype="I32" if inside and precision == "W4A16" else "BF16",
            kind="reference" if inside and precision == "FP8" else "native",
            activations=f"{precision} per token" if inside else "16-bit",
            weight_error=0.01 * (i + 1) if inside and i < 1 else None,
            rows=3 if inside else 1,
            reason="" if inside or not quantized else "the preset keeps it",
        )
        for i in range(2)
        for name, inside in (("attn.to_q", quantized), ("norm.linear", False))
    )
    values = {
        "requested": precision,
        "verdict": "as requested",
        "layers": layers,
        "platform": "cpu",
        "attention_backend": "TORCH_SDPA",
        "world_sizes": {"tp": 1},
        "weight_bytes": {"transformer": 2 * 2**20, "vae": 2**20},
    }
    return Audit(**(values | changes))


def draw(prompt: str, seed: int, noise: float, repeat: int) -> np.ndarray:
    """uint8 [SIDE, SIDE, 3]: a smooth picture for each prompt and seed, plus an error."""
    source = np.random.default_rng([len(prompt), seed])
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    waves = [
        np.sin(2 * np.pi * (x * source.uniform(0.5, 2) + y * source.uniform(0.5, 2)))
        for _ in range(3)
    ]
    error = np.random.default_rng([len(prompt), seed, repeat, 1]).normal(
        0, noise * 255, (SIDE, SIDE, 3)
    )
    return np.clip(127 + 80 * np.stack(waves, axis=-1) + error, 0, 255).round().astype(np.uint8)


def latents_of(prompt: str, seed: int, noise: float, repeat: int) -> Trajectory:
    base = (
        np.random.default_rng([len(prompt), seed]).normal(size=(STEPS + 1, 4, 8)).astype(np.float32)
    )
    error = (
        np.random.default_rng([len(prompt), seed, repeat, 2])
        .normal(size=base.shape)
        .astype(np.float32)
    )
    growing = noise * np.arange(STEPS + 1, dtype=np.float32)[:, None, None]
    return Trajectory(latents=base + growing * error, timesteps=np.linspace(1000.0, 250.0, STEPS))


def write_picture(folder, prompt, seed, pixels, *, index, elapsed_s) -> None:
    """Picture and facts of one generation; the first one is slow, as in an engine."""
    Image.fromarray(pixels).save(folder / "image.png")
    Generation(
        folder=folder,
        prompt=prompt,
        seed=seed,
        sha256=hashlib.sha256(pixels.tobytes()).hexdigest(),
        elapsed_s=elapsed_s + (10 if index == 0 else 0.1 * index),
        stage_durations_s={"denoise": 1.0},
        peak_memory_bytes=(100 + index) * 2**20,
    ).save()


@pytest.fixture
def make_set(tmp_path, monkeypatch) -> Maker:
    """Write one set and load it back."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))

    def make(
        precision: str = "BF16",
        *,
        noise: float = 0.0,
        prompts: tuple[str, ...] = PROMPTS,
        seeds: tuple[int, ...] = SEEDS,
        repeat: int = 0,
        sampling: Sampling | None = None,
        launch: dict | None = None,
        audit: dict | None = None,
        trajectory: Callable[[Trajectory], Trajectory] = lambda kept: kept,
        elapsed_s: float = 2.0,
    ) -> GenerationSet:
        spec = GenerateSpec(
            launch=launch_of(precision, **(launch or {})),
            prompts=PromptSet(prompts),
            seeds=seeds,
            sampling=sampling or Sampling(num_inference_steps=STEPS),
            repeat=repeat,
        )
        folder = store.prepare("generations", spec, force=True)
        names = []
        for index, (prompt, seed) in enumerate((p, s) for p in prompts for s in seeds):
            names.append(f"{index:04d}")
            item = folder / names[-1]
            item.mkdir()
            latents = trajectory(latents_of(prompt, seed, noise, repeat))
            latents.save(item / "trajectory.safetensors")
            pixels = draw(prompt, seed, noise, repeat)
            write_picture(item, prompt, seed, pixels, index=index, elapsed_s=elapsed_s)
        store.commit(
            folder,
            spec,
            {
                "audit": audit_of(precision, **(audit or {})).to_json(),
                "items": names,
                "load_s": 3.0,
                "checkpoint_bytes": {"transformer": 4 * 2**20, "vae": 2**20},
            },
        )
        return GenerationSet.load(folder)

    return make


@pytest.fixture
def reference(make_set) -> GenerationSet:
    return make_set()


@pytest.fixture
def repeat(make_set) -> GenerationSet:
    """A repeat that is not bit-identical, as on a GPU."""
    return make_set(repeat=1, noise=0.002)


class Page(NamedTuple):
    """What headless Chromium made of a file."""

    dom: str
    console: list[str]


@pytest.fixture
def open_page(tmp_path) -> Callable[[Path], Page]:
    """Open a file in headless Chromium without a network."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip(f"needs one of {', '.join(names)}: apt-get install chromium")
    switches = (
        "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
        "disable-component-update disable-sync enable-logging=stderr virtual-time-budget=5000 "
        "dump-dom"
    )

    def open_page(file: Path) -> Page:
        done = subprocess.run(
            [
                browser,
                *(f"--{switch}" for switch in switches.split()),
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={tmp_path / 'profile'}",
                file.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return Page(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])

    return open_page
