"""Every reference kernel against the float64 product of what its format holds, by definition."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from kernel_layers import FORMATS, GROUP, IN, OUT, double

from workbench.torchvision_ops import define_missing

define_missing()

from vllm.model_executor.kernels import linear as kernels  # noqa: E402
from vllm.scalar_type import scalar_types  # noqa: E402

from workbench.serve import cpu  # noqa: E402
from workbench.serve.cpu import formats, wna16  # noqa: E402

SHAPES = {"one row": (1, IN), "3-D": (2, 5, IN), "one token": (3, 1, IN)}
INPUTS = ("random", "zeros", "large", "outlier")


@pytest.fixture(scope="module", autouse=True)
def registered():
    cpu.register()


def inputs(kind, shape, generator):
    x = generator.normal(size=shape)
    if kind == "zeros":
        x[...] = 0
    if kind == "large":
        x *= 3e4
    if kind == "outlier":
        x[..., 7] = 500
    return torch.from_numpy(x)


@pytest.mark.parametrize("name", FORMATS)
def test_a_kernel_is_the_float64_product_of_what_the_format_holds(name: str) -> None:
    generator = np.random.default_rng(0)
    kernel, layer, weight, quantize = FORMATS[name](generator)
    assert getattr(kernel, "reference_kernel", False) or "CPU" in type(kernel).__name__
    kernel.process_weights_after_loading(layer)
    for shape, kind, dtype, biased in product(
        SHAPES.values(), INPUTS, (torch.bfloat16, torch.float32), (False, True)
    ):
        x = inputs(kind, shape, generator).to(dtype)
        if type(kernel).__name__.startswith("CPU"):  # takes matrices, gives the engine's dtype
            x = x.reshape(-1, IN).bfloat16()
        bias = torch.linspace(-1, 1, OUT).to(x.dtype) if biased else None
        wanted = quantize(double(x)) @ weight.T + (double(bias) if biased else 0)
        result = kernel.apply_weights(layer, x, bias)
        assert result.shape == (*x.shape[:-1], OUT)
        assert result.dtype == x.dtype
        size = np.abs(wanted).max() or 1
        # float32 quotients may fall on the other side of a tie: one step of one input
        loose = 2**-8 if x.dtype == torch.bfloat16 else 1e-4
        error = np.linalg.norm(double(result) - wanted) / (np.linalg.norm(wanted) or 1)
        assert error < loose, (shape, kind, dtype, biased, error, size)


@pytest.mark.parametrize("name", [n for n in FORMATS if not n.startswith(("W", "INT8"))])
def test_the_weight_stays_packed_after_products(name: str) -> None:
    kernel, layer, weight, _ = FORMATS[name](np.random.default_rng(0))
    before = {n: (p.dtype, p.nbytes) for n, p in layer.named_parameters()}
    kernel.process_weights_after_loading(layer)
    kernel.apply_weights(layer, torch.ones(1, IN, dtype=torch.bfloat16), None)
    assert {n: (p.dtype, p.nbytes) for n, p in layer.named_parameters()} == before
    held = sum(p.nbytes for p in layer.parameters())
    assert held < 1.2 * weight.size * (0.55 if "FP4" in name else 1.05)


def test_rounding_to_fp4_by_hand() -> None:
    values = torch.tensor([0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 5.1, 99, -0.75, -5.1])
    wanted = [0, 0.5, 1, 1, 2, 2, 4, 4, 6, 6, -1, -6]
    assert formats.round_e2m1(values).tolist() == wanted


def test_the_low_half_of_a_byte_comes_first() -> None:
    assert formats.unpack_e2m1(torch.tensor([[0x21, 0xF7]], dtype=torch.uint8)).tolist() == [
        [0.5, 1.0, 6.0, -6.0]
    ]


def test_mx_scales_by_hand() -> None:
    block = torch.zeros(1, 32)
    block[0, 0], block[0, 1] = 448.0, 1.0  # fits with 2 ** 0: 448 is the largest
    assert formats.mxfp8_rounded(block)[0, :2].tolist() == [448.0, 1.0]
    block[0, 0], block[0, 1] = 449.0, 0.0107421875  # needs 2 ** 1: 449 / 2 -> 224
    assert formats.mxfp8_rounded(block)[0, 0].item() == 448.0
    block[0, 0], block[0, 1] = 7.9, 0.5  # 2 ** 0 by OCP's floor: 7.9 saturates
    assert formats.mxfp4_rounded(block)[0, :2].tolist() == [6.0, 0.5]


def test_vllms_own_functions_round_as_ours() -> None:
    from vllm.model_executor.layers.quantization.utils import mxfp8_utils, nvfp4_emulation_utils

    x = torch.randn(7, 128, generator=torch.Generator().manual_seed(0))
    inverse = torch.tensor(1 / 0.003)
    theirs = nvfp4_emulation_utils.ref_nvfp4_quant_dequant(x, inverse, 16)
    assert torch.linalg.norm(formats.nvfp4_rounded(x, 1 / inverse) - theirs) < 0.02
    values, scale = mxfp8_utils._mxfp8_e4m3_quantize_torch(x)
    torch.testing.assert_close(formats.mxfp8_rounded(x), formats.mxfp8_weight(values, scale))


def test_integers_from_compressed_tensors_lie_the_other_way() -> None:
    generator = np.random.default_rng(1)
    kernel, layer, weight, _ = FORMATS["W4A16"](generator)
    for name in ("qweight", "scales"):
        parameter = torch.nn.Parameter(getattr(layer, name).t().contiguous(), requires_grad=False)
        parameter.input_dim = 1
        setattr(layer, name, parameter)
    kernel.process_weights_after_loading(layer)
    x = torch.randn(3, IN)
    wanted = double(x) @ weight.T
    np.testing.assert_allclose(double(kernel.apply_weights(layer, x)), wanted, rtol=1e-3, atol=1e-4)


def test_vllms_w4a16_kernel_is_taken_where_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    config = kernels.MPLinearLayerConfig(
        (IN, 64), (IN, 64), scalar_types.uint4b8, torch.bfloat16, GROUP, False
    )
    built = hasattr(torch.ops._C, "cpu_gemm_wna16")
    own = "CPUWNA16LinearKernel" if built else "ReferenceWNA16LinearKernel"
    assert kernels.choose_mp_linear_kernel(config).__name__ == own
    monkeypatch.setattr(wna16, "has_own_kernel", lambda: True)
    assert kernels.choose_mp_linear_kernel(config).__name__ == "CPUWNA16LinearKernel"
    monkeypatch.setattr(wna16, "has_own_kernel", lambda: False)
    assert kernels.choose_mp_linear_kernel(config).__name__ == "ReferenceWNA16LinearKernel"


def test_a_matrix_kernel_takes_any_number_of_axes() -> None:
    seen = []

    def apply(self: object, layer: object, x: torch.Tensor, bias: object) -> torch.Tensor:
        seen.append(x.shape)
        return x @ torch.ones(4, 3)

    result = wna16._on_matrices(apply)(None, SimpleNamespace(), torch.ones(2, 5, 4))
    assert seen == [(10, 4)]
    assert result.shape == (2, 5, 3)
