"""The highest of several peaks, where each request starts a new one."""

import pytest
from vllm_omni.diffusion.worker.diffusion_model_runner import DiffusionModelRunner

from workbench.serve import peaks
from workbench.serve.peaks import RequestPeaks


class Device:
    """Keeps books as a CUDA device does."""

    def __init__(self, *, cuda=True):
        self.allocated = self.reserved = 0
        self.resets = 0
        self._cuda = cuda

    def is_cuda(self):
        return self._cuda

    def reset_peak_memory_stats(self, *device):
        self.resets += 1
        self.allocated = self.reserved = 10  # what is held at rest

    def max_memory_allocated(self):
        return self.allocated

    def max_memory_reserved(self):
        return self.reserved

    def rise(self, allocated, reserved):
        self.allocated = max(self.allocated, allocated)
        self.reserved = max(self.reserved, reserved)


@pytest.fixture
def device(monkeypatch):
    one = Device()
    monkeypatch.setattr(peaks, "current_omni_platform", one)
    return one


def test_the_highest_of_all_requests_is_kept_over_their_resets(device):
    device.rise(900, 1000)  # before the mark: not ours
    kept = RequestPeaks()
    for allocated, reserved in ((50, 90), (70, 80), (20, 30)):
        device.reset_peak_memory_stats()  # as vLLM-Omni does with each request
        device.rise(allocated, reserved)
    assert kept.finish() == {"allocated": 70, "reserved": 90}


def test_the_last_request_counts_though_no_reset_follows_it(device):
    kept = RequestPeaks()
    device.reset_peak_memory_stats(0)  # also with the device named
    device.rise(60, 65)
    assert kept.finish() == {"allocated": 60, "reserved": 65}


def test_resets_are_the_devices_own_again_after_the_end(device):
    before = device.reset_peak_memory_stats
    kept = RequestPeaks()
    assert device.resets == 1
    device.reset_peak_memory_stats()
    assert device.resets == 2
    first = kept.finish()
    assert device.reset_peak_memory_stats == before
    device.rise(500, 500)
    device.reset_peak_memory_stats()
    assert (kept.allocated, kept.reserved) == (first["allocated"], first["reserved"])


@pytest.mark.parametrize(("cuda", "expected"), [(True, 300), (False, None)])
def test_the_peak_of_a_load_is_kept_until_the_next(monkeypatch, cuda, expected):
    device = Device(cuda=cuda)

    def load_model(runner, name):
        device.rise(300, 400)
        runner.loaded = name

    monkeypatch.setattr(peaks, "current_omni_platform", device)
    monkeypatch.setattr(peaks, "_load_peak", 77)
    monkeypatch.setattr(DiffusionModelRunner, "load_model", load_model)
    peaks.register()
    once = DiffusionModelRunner.load_model
    peaks.register()
    assert DiffusionModelRunner.load_model is once
    runner = DiffusionModelRunner.__new__(DiffusionModelRunner)
    runner.load_model("model")
    assert runner.loaded == "model"
    device.reset_peak_memory_stats()  # the warm-up's
    assert peaks.load_peak() == expected
