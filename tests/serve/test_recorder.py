"""The recorder sees every step once, wherever a pipeline steps."""

from types import SimpleNamespace

import numpy as np
import torch

from workbench.serve.recorder import Recorder


class Scheduler:
    def step(self, noise_pred: torch.Tensor, t: float, latents: torch.Tensor) -> tuple:
        return (latents - noise_pred,)


def drive(step: object, latents: torch.Tensor) -> torch.Tensor:
    for t in (torch.tensor([2.0]), 1.0):
        result = step(torch.ones_like(latents), t, latents)
        latents = result[0] if isinstance(result, tuple) else result
    return latents


def test_a_pipeline_that_calls_the_scheduler() -> None:
    pipeline = SimpleNamespace(scheduler=Scheduler())
    recorder = Recorder(pipeline)
    drive(pipeline.scheduler.step, torch.zeros(1, 4))
    assert recorder.finish() == {}  # nothing is kept before start
    recorder.start()
    drive(pipeline.scheduler.step, torch.full((1, 4), 5.0))
    recorded = recorder.finish()
    np.testing.assert_array_equal(recorded["latents"][:, 0, 0], [5, 4, 3])
    assert recorded["timesteps"] == [2.0, 1.0]
    assert recorder.finish() == {}


def test_a_nested_step_is_counted_once() -> None:
    pipeline = SimpleNamespace(scheduler=Scheduler())
    pipeline.scheduler_step_maybe_with_cfg = lambda noise, t, latents: pipeline.scheduler.step(
        noise, t, latents
    )[0]
    recorder = Recorder(pipeline)
    recorder.start()
    drive(pipeline.scheduler_step_maybe_with_cfg, torch.zeros(1, 4))
    assert len(recorder.finish()["latents"]) == 3


def test_what_is_kept_does_not_change_when_the_pipeline_writes_in_place() -> None:
    pipeline = SimpleNamespace(scheduler=Scheduler())
    recorder = Recorder(pipeline)
    recorder.start()
    latents = torch.zeros(1, 4)
    (result,) = pipeline.scheduler.step(torch.ones(1, 4), 1.0, latents)
    result.fill_(9)
    latents.fill_(9)
    np.testing.assert_array_equal(recorder.finish()["latents"][:, 0, 0], [0, -1])
