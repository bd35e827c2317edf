"""Calls of a transformer, recorded while a pipeline runs and made again."""

from pathlib import Path
from typing import Any

import torch

from workbench.quant import modelopt, pipelines
from workbench.quant.plan import make_plan
from workbench.quant.recorded import CallRecorder
from workbench.recipes import Calibration, QuantRecipe

CALIBRATION = Calibration(
    prompts=("a teapot on a table",), num_inference_steps=2, height=64, width=64
)
RECIPE = QuantRecipe(method="modelopt", scheme="FP8", calibration=CALIBRATION)


def test_calibration_leaves_the_transformer_as_it_computes(tiny_flux: Path) -> None:
    pipeline = pipelines.load_pipeline(tiny_flux)
    models, clock = {"transformer": pipeline.transformer}, pipelines.Clock()
    recorder = CallRecorder(models, clock)
    before = []

    def run() -> None:
        pipelines.run_prompts(pipeline, tiny_flux, CALIBRATION, clock)
        recorder.remove()
        before.append([output(call) for call in recorder.spread("transformer")])

    def output(call: Any) -> torch.Tensor:
        with torch.no_grad():
            return models["transformer"](*call[0], **call[1])[0]

    modelopt.observe(models, make_plan(tiny_flux, RECIPE), run)
    after = [output(call) for call in recorder.spread("transformer")]
    assert len(after) == 2
    assert all(torch.equal(a, b) for a, b in zip(before[0], after, strict=True))
