"""FP8 on CPU against other arithmetic: by hand, and torch's own FP8 product."""

from types import SimpleNamespace

import pytest
import torch

from workbench.torchvision_ops import define_missing

define_missing()

from vllm.model_executor.layers.quantization.utils.quant_utils import (  # noqa: E402
    kFp8DynamicTensorSym,
)

from workbench.serve.cpu.fp8 import ReferenceFp8LinearKernel, scaled_fp8_quant  # noqa: E402


def test_scale_and_values_by_hand() -> None:
    values, scale = scaled_fp8_quant(torch.tensor([[448.0, -224.0], [1.0, 0.0]]))
    assert scale.item() == 1.0
    assert values.float().tolist() == [[448.0, -224.0], [1.0, 0.0]]
    values, scale = scaled_fp8_quant(torch.tensor([[896.0, 3.4]]))
    assert scale.item() == 2.0
    assert values.float().tolist() == [[448.0, 1.75]]  # 1.7 lies between 1.625 and 1.75


def test_one_scale_a_token() -> None:
    _, scale = scaled_fp8_quant(torch.tensor([[448.0], [4.48]]), use_per_token_if_dynamic=True)
    assert scale.flatten().tolist() == pytest.approx([1.0, 0.01])


def test_a_given_scale_saturates() -> None:
    values, _ = scaled_fp8_quant(torch.tensor([[1e6, -1e6]]), torch.ones(1))
    assert values.float().tolist() == [[448.0, -448.0]]


def test_zeros_stay_zeros() -> None:
    values, scale = scaled_fp8_quant(torch.zeros(2, 3))
    assert values.float().abs().sum() == 0
    assert torch.isfinite(scale).all()


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="group_shape"):
        scaled_fp8_quant(torch.zeros(2, 3), group_shape=(1, 128))


def test_the_product_is_that_of_torchs_scaled_mm() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 16, 64).bfloat16()
    weight, weight_scale = scaled_fp8_quant(torch.randn(32, 64))
    bias = torch.randn(32).bfloat16()
    config = SimpleNamespace(out_dtype=torch.bfloat16, activation_quant_key=kFp8DynamicTensorSym)
    names = ("weight", "weight_scale", "input_scale", "input_scale_ub")
    kernel = ReferenceFp8LinearKernel(config, names)
    layer = SimpleNamespace(weight=weight.t(), weight_scale=weight_scale)
    result = kernel.apply_weights(layer, x, bias)
    rows, scale = scaled_fp8_quant(x.reshape(-1, 64))
    oracle = torch._scaled_mm(
        rows, weight.t(), scale_a=scale, scale_b=weight_scale, out_dtype=torch.float32
    )
    wanted = (oracle + bias.float()).reshape(2, 16, 32)
    torch.testing.assert_close(result.float(), wanted, rtol=2**-8, atol=1e-3)
