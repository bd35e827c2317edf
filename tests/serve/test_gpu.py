"""The same precisions on a GPU, by its own kernels."""

from pathlib import Path

import pytest

import workbench as wb

pytestmark = pytest.mark.gpu
SLACK = 64 * 2**20  # bytes: workspaces of libraries that come with the first product
KERNELS = {"FP8": "ScaledMM", "INT8": "ScaledMM", "W4A16": "LinearKernel"}


@pytest.mark.parametrize("precision", KERNELS)
def test_low_precision_runs_on_a_cuda_kernel(precision: str, runs: Path) -> None:
    model: object = wb.ModelRef("embedded:qwen-image")
    options = {"quantization": precision.lower()} if precision != "W4A16" else {}
    if precision == "W4A16":
        model = wb.quantize(model, wb.QuantRecipe(method="auto-round", scheme="W4A16"))
    result = wb.generate(model, "a teapot on a wooden table", **options)
    assert result.audit.platform == "cuda"
    assert not result.audit.reference_kernels
    assert all(KERNELS[precision] in name for name in result.audit.kernels)
    exact = wb.generate("embedded:qwen-image", "a teapot on a wooden table")
    assert wb.compare(exact, result).table()["psnr_db"][0] > 15


def test_a_peak_is_that_of_its_own_requests(runs: Path) -> None:
    small, large = (
        wb.Sampling(num_inference_steps=2, height=size, width=size) for size in (128, 512)
    )
    with wb.launch("embedded:qwen-image") as engine:
        first, big, again = (
            engine.generate("a teapot", sampling=sampling, repeat=number)[0].peak_memory_bytes
            for number, sampling in enumerate((small, large, small))
        )
    assert big > first
    assert again == pytest.approx(first, rel=0.1)


def test_what_a_device_holds_counts_the_context_in_every_launch(runs: Path) -> None:
    """It outlives the engine of an inline launch, and was in the first one's number alone."""
    load = wb.Workload("a teapot", seeds=(0,), requests=2)
    above = []
    for repeat in range(2):
        with wb.launch("embedded:qwen-image") as engine:
            (rank,) = wb.benchmark(engine, load, stages=False, repeat=repeat).memory
        above.append(rank.device_used - rank.reserved_peak)
    assert above[1] == pytest.approx(above[0], abs=2 * SLACK)


@pytest.mark.parametrize("precision", ["fp8", "int8", None])
def test_a_batch_runs_at_each_precision(precision: str | None, runs: Path) -> None:
    load = wb.Workload("a teapot", seeds=(0, 1), concurrency=2, requests=4)
    with wb.launch(
        "embedded:qwen-image",
        quantization=precision,
        max_num_seqs=2,
        request_batch_max_wait_ms=1000,
    ) as engine:
        got = wb.benchmark(engine, load, stages=False)
    assert set(got.batches) == {2}
    assert not got.result.failed
    assert got.memory[0].load_peak >= sum(got.memory[0].weights.values())
    assert got.memory[0].device_used > 0
