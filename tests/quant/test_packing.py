"""The unpacker against numbers worked out by hand, and against AutoRound's own linear."""

import pytest
import torch

from workbench.quant.packing import integers, relative_error


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
