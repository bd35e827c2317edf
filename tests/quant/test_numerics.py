"""Rounding against tables worked out by hand, ModelOpt's packed tensors and vLLM's own code."""

import math

import pytest
import torch

from workbench.quant import numerics
from workbench.quant.modelopt import packers
from workbench.quant.packing import dequantize

VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator)
    values[:, ::64] *= 6  # outliers, as in real transformers
    return values


def test_e2m1_takes_the_nearest_and_ties_go_to_the_even_code() -> None:
    values = torch.linspace(-7, 7, 5601)
    for value, got in zip(values.tolist(), numerics.e2m1(values).tolist(), strict=True):
        distances = [abs(min(abs(value), 6) - one) for one in VALUES]
        best = [i for i, d in enumerate(distances) if math.isclose(d, min(distances), abs_tol=1e-7)]
        expected = VALUES[next(i for i in best if len(best) == 1 or i % 2 == 0)]
        assert got == math.copysign(expected, value) or expected == got == 0


def test_e2m1_ties_by_hand() -> None:
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.75, -5.0, 100.0])
    assert numerics.e2m1(ties).tolist() == [0, 1, 1, 2, 2, 4, 4, -1, -4, 6]


def test_e4m3_saturates_where_torch_would_not() -> None:
    values = torch.tensor([500.0, -1e9, 448.0, 17.0, 2.0**-9, 2.0**-11])
    assert numerics.e4m3(values).tolist() == [448, -448, 448, 16, 2.0**-9, 0]


def test_fp8_by_hand() -> None:
    rounded = numerics.fp8(torch.tensor([[4.48, 0.17, -0.5, 9.0]]), 4.48)
    assert rounded.tolist()[0] == pytest.approx([4.48, 0.16, -0.48, 4.48])  # 50 lies between 48, 52
    assert numerics.fp8(torch.zeros(1, 4), 0.0).tolist() == [[0, 0, 0, 0]]


def test_each_row_has_its_own_scale() -> None:
    values = torch.tensor([[448.0, 17.0], [4.48, 0.17]])
    assert numerics.fp8_rows(values).flatten().tolist() == pytest.approx([448, 16, 4.48, 0.16])


def test_nvfp4_by_hand() -> None:
    """Whole scale 1, so a block of largest value 6 has the scale 1, and one of 12 the scale 2."""
    values = torch.zeros(1, 48)
    values[0, :4] = torch.tensor([6.0, 2.4, -0.3, 5.1])
    values[0, 16:19] = torch.tensor([12.0, 5.0, -0.4])
    rounded = numerics.nvfp4(values, 6.0 * 448)
    assert rounded[0, :4].tolist() == [6.0, 2.0, -0.5, 6.0]
    assert rounded[0, 16:19].tolist() == [12.0, 4.0, -0.0]
    assert not rounded[0, 32:].any()


def test_mxfp8_scales_are_powers_of_two() -> None:
    values = torch.zeros(1, 64)
    values[0, :2] = torch.tensor([448.0, 17.0])
    values[0, 32:34] = torch.tensor([449.0, 34.0])  # scale 2: 17 rounds to 16
    rounded = numerics.mxfp8(values)
    assert rounded[0, :2].tolist() == [448, 16]
    assert rounded[0, 32:34].tolist() == [448, 32]


@pytest.mark.parametrize("scheme", ["FP8", "NVFP4", "MXFP8"])
def test_weights_are_what_modelopt_packs(scheme: str) -> None:
    weight = drawn(64, 256)
    amax = weight.abs().max() * 1.25  # as in a fused group whose other member is larger
    own = {
        "FP8": lambda: numerics.fp8(weight, amax),
        "NVFP4": lambda: numerics.nvfp4(weight, amax),
        "MXFP8": lambda: numerics.mxfp8(weight),
    }[scheme]()
    parts = {"input_scale": torch.tensor(1.0), **packers()[scheme](weight, amax)}
    torch.testing.assert_close(own, dequantize(parts, scheme), rtol=1e-6, atol=0)


def test_nvfp4_inputs_are_what_vllm_computes() -> None:
    from vllm.model_executor.layers.quantization.utils.nvfp4_emulation_utils import (
        ref_nvfp4_quant_dequant,
    )

    values, amax = drawn(8, 128), torch.tensor(20.0)
    theirs = ref_nvfp4_quant_dequant(values, 6 * 448 / amax, 16)
    torch.testing.assert_close(numerics.nvfp4(values, amax), theirs.float(), rtol=1e-5, atol=1e-7)


def test_mxfp8_inputs_are_what_vllm_computes() -> None:
    from vllm.model_executor.layers.quantization.utils import mxfp8_utils

    values = drawn(8, 128).bfloat16()
    quantized, scales = mxfp8_utils._mxfp8_e4m3_quantize_torch(values)
    theirs = mxfp8_utils.dequant_mxfp8_to_bf16(quantized, scales.view(8, -1))
    assert torch.equal(numerics.mxfp8(values).bfloat16(), theirs)


def test_packed_pairs_by_hand() -> None:
    packed = torch.tensor([[0x10, 0xF7]], dtype=torch.uint8)
    assert numerics.unpack_e2m1(packed).tolist() == [[0.0, 0.5, 6.0, -6.0]]
    scales = torch.tensor([127, 128, 120, 255], dtype=torch.uint8)
    assert numerics.e8m0(scales)[:3].tolist() == [1.0, 2.0, 2.0**-7]
    assert numerics.e8m0(scales)[3].isnan()
