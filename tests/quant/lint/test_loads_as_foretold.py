"""Broken and odd checkpoints in vLLM-Omni's own worker: it does what the linter foretold.

In a process of its own, as stock must not see the workbench's plugin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planting import config, copy

import workbench as wb
from workbench.quant.lint.prediction import Prediction

STOCK = "workbench_torchvision,workbench_cpu,workbench"
LOAD = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from loading import worker_of
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod

def load(folder):
    try:
        with worker_of(folder) as worker:
            return {
                name: not isinstance(module.quant_method, UnquantizedLinearMethod)
                for name, module in worker.model_runner.pipeline.transformer.named_modules()
                if isinstance(module, LinearBase)
            }
    except Exception as error:
        return f"{type(error).__name__}: {error}"

answers = {folder: load(Path(folder)) for folder in sys.argv[3:]}
Path(sys.argv[2]).write_text(json.dumps(answers))
"""
Loaded = dict[str, dict[str, bool] | str]


def load(folders: list[Path], plugins: str, answer: Path) -> Loaded:
    """Folder -> linear of its transformer -> whether it is quantized; or the error."""
    helper = Path(__file__).parents[2] / "serve"
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(helper), str(answer), *map(str, folders)],
        env={**os.environ, "VLLM_PLUGINS": plugins, "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(answer.read_text())


def transformer(predictions: tuple[Prediction, ...]) -> Prediction:
    (found,) = [p for p in predictions if p.component == "transformer"]
    return found


def plain(said: dict[str, Any]) -> None:
    """As it was written."""


def proj_out_ignored(said: dict[str, Any]) -> None:
    said["ignore"].append("proj_out")


def fused_names_left_out(said: dict[str, Any]) -> None:
    for name in [n for n in said["quantized_layers"] if n.endswith(("to_qkv", "add_kv_proj"))]:
        del said["quantized_layers"][name]


def kept_but_packed(said: dict[str, Any]) -> None:
    said["extra_config"]["transformer_blocks.0.img_mlp.net.2"] = {"bits": 16}


CASES = {
    "flux FP8-dynamic": (proj_out_ignored, "partly", "as stored"),
    "qwen MIXED": (fused_names_left_out, "refused", "as stored"),
    "wan FP8-dynamic": (plain, "refused", "as stored"),
    "qwen W4A16": (kept_but_packed, "refused", "refused"),
}
"""Checkpoint -> change of its config, and what stock makes of it, and stock with the plugin."""


@pytest.fixture(scope="module")
def folders(
    good: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    made = {}
    for base, (change, *_) in CASES.items():
        made[base] = copy(good(base), tmp_path_factory.mktemp("loads") / "checkpoint")
        with config(made[base] / "transformer/config.json") as content:
            change(content["quantization_config"])
    return made


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_stock_engine_does_what_was_foretold(folders: dict[str, Path], tmp_path: Path) -> None:
    loaded = load(list(folders.values()), STOCK, tmp_path / "answer.json")
    for base, folder in folders.items():
        report = wb.lint(folder)
        foretold, found = transformer(report.stock), loaded[str(folder)]
        assert foretold.outcome == CASES[base][1], base
        assert transformer(report.plugin).outcome == CASES[base][2], base
        assert isinstance(found, str) == (foretold.outcome == "refused"), (base, found)
        if isinstance(found, dict):
            quantized = {name for name, packed in found.items() if packed}
            assert quantized == set(foretold.quantized), base
            assert set(found) - quantized <= set(foretold.sixteen_bit), base
