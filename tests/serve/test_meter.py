"""Passes and times of a small pipeline, with a clock of our own."""

from types import SimpleNamespace

import pytest
import torch

from workbench.serve import meter, tracing
from workbench.serve.meter import Meter


class Clock:
    """Each component moves it by its own number of seconds; a wait by a thousandth."""

    def __init__(self):
        self.now = 0.0
        self.waits = 0

    def __call__(self):
        return self.now

    def wait(self):
        self.waits += 1
        self.now += 0.001


class Part(torch.nn.Module):
    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def forward(self, *inputs, **named):
        self.clock.now += self.seconds
        return (*inputs, *named.values())[-1]


class Vae(Part):
    def decode(self, latents, *, fails=False):
        self.clock.now += self.seconds
        if fails:
            raise ValueError("no picture")
        return latents


class Pipeline(torch.nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.text_encoder = Part(clock, 1.0)
        self.text_encoder_2 = Part(clock, 2.0)
        self.transformer = Part(clock, 10.0)
        self.scheduler_head = Part(clock, 50.0)  # none of the components that have a name here
        self.vae = Vae(clock, 5.0)

    def draw(self, pictures, steps=2):
        self.text_encoder(torch.zeros(pictures, 3))
        self.text_encoder_2(torch.zeros(pictures, 3))
        for step in range(steps):
            latents = torch.zeros(pictures, 4, 8)
            self.transformer(hidden_states=latents, timestep=torch.full((1,), step))
        self.scheduler_head(latents)
        return self.vae.decode(latents)


@pytest.fixture
def clock(monkeypatch):
    one = Clock()
    monkeypatch.setattr(meter.time, "perf_counter", one)
    return one


@pytest.fixture
def pipeline(clock):
    return Pipeline(clock)


def hooks(pipeline):
    return sum(
        len(part._forward_pre_hooks) + len(part._forward_hooks) for part in pipeline.modules()
    )


def test_passes_are_counted_by_the_pictures_in_them(pipeline):
    counting = Meter(pipeline)
    for pictures in (1, 2, 2):
        pipeline.draw(pictures)
    assert counting.finish() == {"batches": {1: 2, 2: 4}, "stages_s": {}}


def test_the_latents_are_found_wherever_they_are_given(pipeline, clock):
    counting = Meter(pipeline)
    pipeline.transformer(torch.zeros(3, 4))
    pipeline.transformer(timestep=torch.zeros(1), hidden_states=torch.zeros(4, 2))
    pipeline.transformer(None, sample=torch.zeros(5, 2))
    pipeline.transformer(None, step=1)  # no tensor at all: nothing to count
    assert counting.finish()["batches"] == {3: 1, 4: 1, 5: 1}


def test_without_a_wait_for_the_device_nothing_is_timed_and_nothing_waits(pipeline, clock):
    decode = pipeline.vae.decode
    counting = Meter(pipeline)
    assert pipeline.vae.decode == decode
    pipeline.draw(1)
    assert clock.waits == 0
    assert counting.finish()["stages_s"] == {}


def test_components_are_timed_between_two_waits_for_the_device(pipeline, clock):
    timing = Meter(pipeline, clock.wait)
    pipeline.draw(2, steps=3)
    got = timing.finish()
    assert got["batches"] == {2: 3}
    assert got["stages_s"] == pytest.approx(
        {  # the wait after a call is the call's, the one before it is not
            "text_encoder": 1.001,
            "text_encoder_2": 2.001,
            "transformer": 30.003,
            "vae.decode": 5.001,
        }
    )
    assert clock.waits == 2 * (1 + 1 + 3 + 1)


def test_all_is_as_it_was_after_the_end(pipeline, clock):
    timing = Meter(pipeline, clock.wait)
    assert hooks(pipeline) > 0
    assert "decode" in vars(pipeline.vae)
    first = timing.finish()
    assert hooks(pipeline) == 0
    assert "decode" not in vars(pipeline.vae)
    pipeline.draw(1)
    assert timing.finish() == first
    assert clock.waits == 0


def test_a_decoding_that_fails_is_timed_and_passes_its_error_on(pipeline, clock):
    timing = Meter(pipeline, clock.wait)
    with pytest.raises(ValueError, match="no picture"):
        pipeline.vae.decode(torch.zeros(1), fails=True)
    assert timing.finish()["stages_s"] == pytest.approx({"vae.decode": 5.001})


def test_a_pipeline_without_a_vae_or_a_transformer_has_none(clock):
    pipeline = torch.nn.Module()
    pipeline.text_encoder = Part(clock, 1.0)
    timing = Meter(pipeline, clock.wait)
    pipeline.text_encoder(torch.zeros(1))
    assert timing.finish() == {
        "batches": {},
        "stages_s": {"text_encoder": pytest.approx(1.001)},
    }


def test_a_meter_that_was_never_read_is_taken_off_by_the_next(pipeline, monkeypatch):
    platform = tracing.current_omni_platform
    reset = platform.reset_peak_memory_stats
    monkeypatch.setattr(tracing, "_gather", lambda value: [value])
    worker = tracing.WorkerTools()
    worker.model_runner = SimpleNamespace(pipeline=pipeline)
    worker.workbench_meter(True)
    pipeline.draw(2)  # of a load that failed
    worker.workbench_meter(True)
    pipeline.draw(1)
    assert worker.workbench_read_meter()["batches"] == {1: 2}
    assert hooks(pipeline) == 0
    assert "decode" not in vars(pipeline.vae)
    assert platform.reset_peak_memory_stats == reset
    worker.workbench_meter()
    assert worker.workbench_read_meter()["batches"] == {}
