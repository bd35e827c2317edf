"""The same precisions on a GPU, by its own kernels."""

from pathlib import Path

import pytest

import workbench as wb

pytestmark = pytest.mark.gpu
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
