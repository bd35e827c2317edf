"""FP8 linears with inputs that are slices of a batch, as joint attention hands them on."""

from types import SimpleNamespace

import pytest
import torch

from workbench.torchvision_ops import define_missing

define_missing()

from vllm.model_executor.kernels.linear.scaled_mm.ScaledMMLinearKernel import (  # noqa: E402
    FP8ScaledMMLinearKernel,
)

from workbench.serve.plugin import strided  # noqa: E402

JOINT = torch.arange(2 * 5 * 4.0).reshape(2, 5, 4)  # two pictures, five tokens
IMAGE = JOINT[:, 2:, :]


class Kernel(FP8ScaledMMLinearKernel):
    """vLLM's own way in, with a plain product behind it."""

    def __init__(self):
        self.fp8_dtype = torch.float8_e4m3fn
        self.config = SimpleNamespace(out_dtype=torch.float32)
        self.layer_param_names = ("weight", "weight_scale", "input_scale", "upper")
        self.quant_fp8 = lambda x, scale, upper: (x, torch.ones(1))

    is_supported = can_implement = classmethod(lambda *_: (True, None))

    def input_quant_key(self):
        return None

    def apply_scaled_mm(self, *, A, B, output_shape, **_):  # noqa: N803
        return (A @ B).reshape(output_shape)


LAYER = SimpleNamespace(weight=torch.eye(4)[:, :3], weight_scale=torch.ones(1))


def test_stock_vllm_refuses_them():
    stock = getattr(
        FP8ScaledMMLinearKernel.apply_weights, "__wrapped__", FP8ScaledMMLinearKernel.apply_weights
    )
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        stock(Kernel(), LAYER, IMAGE)


def test_repaired_they_are_multiplied_as_they_are():
    strided.register()
    strided.register()
    assert torch.equal(Kernel().apply_weights(LAYER, IMAGE), IMAGE[..., :3])
    assert not hasattr(FP8ScaledMMLinearKernel.apply_weights.__wrapped__, "__wrapped__")
