"""BF16 convolutions and linears: the stock loop's numbers, and nothing else is touched."""

import pytest
import torch
from torch.nn import functional

from workbench import bf16


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_numbers_are_those_of_the_stock_convolution(axes: int) -> None:
    stock = getattr(torch, f"conv{axes}d")
    torch.manual_seed(0)
    x = torch.randn(1, 4, *(5,) * axes).bfloat16()
    weight, bias = torch.randn(6, 2, *(3,) * axes).bfloat16(), torch.randn(6).bfloat16()
    result = bf16._in_float32(stock)(x, weight, bias, stride=1, padding=1, groups=2)
    wanted = stock(x.double(), weight.double(), bias.double(), padding=1, groups=2)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.double(), wanted, rtol=2**-8, atol=2**-10)


def test_a_linear_has_the_numbers_of_the_stock_one() -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(s).bfloat16() for s in ((3, 7, 96), (40, 96), (40,)))
    found = bf16._in_float32(functional.linear)(x, weight, bias)
    wanted = functional.linear(x.double(), weight.double(), bias.double())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=2**-8, atol=2**-10)


def test_other_dtypes_go_to_the_stock_function() -> None:
    seen = []

    def convolve(input: torch.Tensor, weight: torch.Tensor, bias: object) -> torch.Tensor:
        seen.append((input.dtype, weight.dtype))
        return input

    bf16._in_float32(convolve)(torch.ones(1), torch.ones(1))
    assert seen == [(torch.float32, torch.float32)]


def test_it_is_in_force_where_onednn_has_no_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = torch.conv2d
    monkeypatch.setattr(torch.nn.functional, "conv2d", stock)
    bf16.register()
    replaced = torch.nn.functional.conv2d is not stock
    assert replaced == (not torch.ops.mkldnn._is_mkldnn_bf16_supported())


def test_autocast_is_taken_over_too() -> None:
    """Under it float32 tensors are convolved in BF16, by the same plain loop."""
    x, weight, bias = (torch.randn(shape) for shape in ((1, 4, 3, 8, 8), (5, 4, 3, 3, 3), (5,)))
    stock, ours = functional.conv3d, bf16._in_float32(functional.conv3d)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted, found = (one(x, weight, bias, padding=1) for one in (stock, ours))
    assert found.dtype == wanted.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=2**-7, atol=2**-7)
    seen = []

    def spy(input: torch.Tensor, *rest: object, **named: object) -> torch.Tensor:
        seen.append((input.dtype, torch.is_autocast_enabled("cpu")))
        return stock(input, *rest, **named)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        bf16._in_float32(spy)(x, weight, bias)
    assert seen == [(torch.float32, False)]


@pytest.mark.parametrize("given", [(), ((2, 1, 1), (0, 1, 1), 1, 2), (1, "same")])
def test_a_short_clip_is_convolved_alike(given: tuple[object, ...]) -> None:
    """Also with a stride, padding and groups, and where the padding is a word."""
    torch.manual_seed(0)
    groups = given[3] if len(given) > 3 else 1
    x, weight, bias = (
        torch.randn(size) for size in ((1, 8, 3, 9, 7), (6, 8 // groups, 3, 3, 3), (6,))
    )
    found = bf16._by_onednn(torch.conv3d)(x, weight, bias, *given)
    wanted = torch.conv3d(x.double(), weight.double(), bias.double(), *given)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
