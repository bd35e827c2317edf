"""The unpacker against numbers worked out by hand, and against AutoRound's own linear."""

import pytest
import torch

from workbench.errors import QuantizationFailed
from workbench.quant.packing import dequantize, integers, relative_error
from workbench.schemes import SCHEMES


def pack(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Independent of the code under test: Python integers, one word at a time."""
    rows = values.movedim(axis, 0).reshape(-1, 8, *values.movedim(axis, 0).shape[1:])
    words = torch.zeros(rows.shape[0], *rows.shape[2:], dtype=torch.int64)
    for position in range(8):
        words += rows[:, position].long() << (4 * position)
    words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    return words.movedim(0, axis)


def test_eight_inputs_of_eight_outputs_by_hand() -> None:
    qweight = torch.tensor([[0x76543210] + [0x11111111] * 7], dtype=torch.int32)
    qzeros = torch.tensor([[0x77777777]], dtype=torch.int32)  # 7 stored is a zero point of 8
    scales = torch.tensor([[0.5] + [1.0] * 6 + [2.0]], dtype=torch.float16)
    weight = integers(qweight, qzeros, scales)
    assert weight.shape == (8, 8)
    assert weight[0].tolist() == [-4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5]
    assert weight[1].tolist() == [-7.0] * 8
    assert weight[7].tolist() == [-14.0] * 8


def test_the_sign_bit_of_a_word_is_data() -> None:
    qweight = torch.full((1, 8), -1, dtype=torch.int32)  # eight times 15
    weight = integers(qweight, torch.full((1, 1), 0x77777777, dtype=torch.int32), torch.ones(1, 8))
    assert (weight == 7).all()


def test_groups_and_zero_points_differ_by_place() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 16, (64, 16), generator=generator)
    zeros = torch.randint(0, 15, (2, 16), generator=generator)
    scales = torch.rand(2, 16, generator=generator)
    expected = torch.stack(
        [(values[i] - (zeros[i // 32] + 1)) * scales[i // 32] for i in range(64)]
    ).T
    assert torch.equal(integers(pack(values, 0), pack(zeros, 1), scales), expected)


@pytest.mark.parametrize("group", [32, 128])
def test_agrees_with_autorounds_own_linear(group: int) -> None:
    from auto_round_extension.torch.qlinear_torch_zp import QuantLinear

    inputs, outputs = 256, 64
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(outputs, inputs, generator=generator)
    scales = weight.view(outputs, -1, group).abs().amax(-1) / 7
    linear = torch.nn.Linear(inputs, outputs, bias=False)
    linear.weight.data = weight
    oracle = QuantLinear(4, group, inputs, outputs, bias=False)
    oracle.pack(linear, scales, torch.full_like(scales, 8), device="cpu")
    own = integers(oracle.qweight, oracle.qzeros, oracle.scales)
    assert torch.equal(own.half(), oracle(torch.eye(inputs)).T.half())  # it computes in float16
    assert relative_error(own, weight) < 0.2


def test_relative_error() -> None:
    reference = torch.tensor([[3.0, 4.0]])
    assert relative_error(reference, reference) == 0
    assert relative_error(torch.tensor([[3.0, 4.5]]), reference) == pytest.approx(0.1)
    assert relative_error(torch.zeros(1, 2), torch.zeros(1, 2)) == 0


def by_modelopt(scheme: str, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The stored tensors, and what ModelOpt itself reads from them."""
    from modelopt.torch.quantization.qtensor import (
        FP8QTensor,
        MXFP4QTensor,
        MXFP8QTensor,
        NVFP4QTensor,
    )

    one = torch.tensor(1.0)
    if scheme == "NVFP4":
        packed, scale, whole = NVFP4QTensor.quantize(weight.clone(), 16)
        parts = {"weight_scale": scale, "weight_scale_2": whole, "input_scale": one}
        read = packed.dequantize(scale=scale, double_scale=whole, block_sizes={-1: 16})
    elif scheme == "MXFP4":
        packed, scale = MXFP4QTensor.quantize(weight.clone(), 32)
        parts = {"weight_scale": scale.view(weight.shape[0], -1)}
        read = packed.dequantize(scale=scale, block_sizes={-1: 32})
    elif scheme == "MXFP8":
        packed, scale = MXFP8QTensor.quantize(weight.clone())
        parts, read = {"weight_scale": scale}, packed.dequantize(scale=scale)
    else:
        axis = None if scheme == "FP8" else 0
        packed, scale = FP8QTensor.quantize(weight.clone(), axis=axis)
        parts = {"weight_scale": scale.flatten() if axis == 0 else scale.reshape(())}
        parts |= {"input_scale": one} if scheme == "FP8" else {}
        read = packed.dequantize(torch.float32, scale=scale)
    return {SCHEMES[scheme].weight: packed._quantized_data, **parts}, read.float()


@pytest.mark.parametrize("scheme", ["FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MXFP8", "MXFP4"])
def test_float_formats_read_as_modelopt_reads_them(scheme: str) -> None:
    import workbench.quant.modelopt as modelopt

    modelopt.packers()  # imports ModelOpt beside whatever torchvision there is
    weight = torch.randn(48, 128, generator=torch.Generator().manual_seed(2))
    parts, expected = by_modelopt(scheme, weight)
    read = dequantize(parts, scheme)
    assert read.shape == weight.shape
    torch.testing.assert_close(read, expected.view_as(weight), rtol=1e-6, atol=0)
    low, high = SCHEMES[scheme].error
    assert low < relative_error(read, weight) < high


def test_float_formats_by_hand() -> None:
    """Codes 1 and 15 are 0.5 and -6; 127 is a scale of 1 and 129 one of 4."""
    pairs = torch.full((1, 16), 0xF1, dtype=torch.uint8)
    mxfp4 = {"weight_packed": pairs, "weight_scale": torch.tensor([[129]], dtype=torch.uint8)}
    assert dequantize(mxfp4, "MXFP4")[0, :2].tolist() == [2.0, -24.0]
    nvfp4 = {
        "weight": pairs,
        "weight_scale": torch.tensor([[2.0, 3.0]]).to(torch.float8_e4m3fn),
        "weight_scale_2": torch.tensor(0.5),
        "input_scale": torch.tensor(1.0),
    }
    assert dequantize(nvfp4, "NVFP4")[0, [0, 1, 16, 17]].tolist() == [0.5, -6.0, 0.75, -9.0]
    values = torch.full((2, 32), 3.0).to(torch.float8_e4m3fn)
    mxfp8 = {"weight": values, "weight_scale": torch.tensor([[127], [126]], dtype=torch.uint8)}
    assert dequantize(mxfp8, "MXFP8")[:, 0].tolist() == [3.0, 1.5]
    rows = {"weight": values, "weight_scale": torch.tensor([2.0, 0.25])}
    assert dequantize(rows, "FP8_PER_CHANNEL_PER_TOKEN")[:, 5].tolist() == [6.0, 0.75]
    whole = {"weight": values, "weight_scale": torch.tensor(2.0), "input_scale": torch.tensor(1.0)}
    assert dequantize(whole, "FP8")[1, 31].item() == 6.0


def test_a_missing_scale_is_named() -> None:
    with pytest.raises(QuantizationFailed, match="FP8 without input_scale"):
        dequantize({"weight": torch.ones(1, 1), "weight_scale": torch.ones(())}, "FP8")
    with pytest.raises(QuantizationFailed, match="no stored layout 'INT3'"):
        dequantize({}, "INT3")
