"""BF16 convolutions: the stock loop's numbers, and nothing else is touched."""

import pytest
import torch

from workbench.serve.cpu import convolution


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_numbers_are_those_of_the_stock_convolution(axes: int) -> None:
    stock = getattr(torch, f"conv{axes}d")
    torch.manual_seed(0)
    x = torch.randn(1, 4, *(5,) * axes).bfloat16()
    weight, bias = torch.randn(6, 2, *(3,) * axes).bfloat16(), torch.randn(6).bfloat16()
    result = convolution._in_float32(stock)(x, weight, bias, stride=1, padding=1, groups=2)
    wanted = stock(x.double(), weight.double(), bias.double(), padding=1, groups=2)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.double(), wanted, rtol=2**-8, atol=2**-10)


def test_other_dtypes_go_to_the_stock_function() -> None:
    seen = []

    def convolve(input: torch.Tensor, weight: torch.Tensor, bias: object) -> torch.Tensor:
        seen.append((input.dtype, weight.dtype))
        return input

    convolution._in_float32(convolve)(torch.ones(1), torch.ones(1))
    assert seen == [(torch.float32, torch.float32)]


def test_it_is_in_force_where_onednn_has_no_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = torch.conv2d
    monkeypatch.setattr(torch.nn.functional, "conv2d", stock)
    convolution.register()
    replaced = torch.nn.functional.conv2d is not stock
    assert replaced == (not torch.ops.mkldnn._is_mkldnn_bf16_supported())
