"""vLLM's kernels against the reference numerics: the same stored tensors, the same inputs.

A kernel that quantizes inputs is held against the whole format; a weight-only one against 16-bit
inputs times the format's weight. BOUND covers rounding of the result to BF16, inputs on the other
side of a tie, and weights that a kernel rounds to BF16 once.
"""

import pytest
import torch
from packed_linears import SCHEMES, error, inputs, linear

from workbench.serve import kernel_kinds
from workbench.serve.modules import facts

BOUND = 0.01
EMULATED = 0.02  # vLLM's emulation rounds the dequantized weight and inputs to BF16 as well
ROUNDING_OF_INPUTS = 0.006  # least distance of a kernel that leaves inputs alone from the format
SHAPES = {"one row": (1,), "odd rows": (17,), "3-D": (2, 5)}


def kind_of(layer: object) -> str:
    found = facts(layer)
    return "reference" if found["reference_kernel"] else kernel_kinds.kernel_kind(found["kernel"])


def check(scheme: str, device: str, kernel: type | None = None) -> tuple[str, str]:
    """Every shape within the bound; the kernel's name and kind."""
    layer, packed = linear(scheme, device, kernel)
    name, kind = facts(layer)["kernel"], kind_of(layer)
    only = kind == "weight-only" or name == "EmulationMxfp8LinearKernel"  # its inputs stay 16-bit
    for label, shape in SHAPES.items():
        if kind == "emulated" and len(shape) > 1:
            continue  # vLLM's emulations take matrices
        x = inputs(*shape, device=device)
        found = error(layer, packed, x, weight_only=only)
        print(f"{scheme}, {label}: {name} ({kind}) differs by {found:.5f}")
        assert found < (EMULATED if kind == "emulated" else BOUND), (name, kind, label)
    return name, kind


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_kernel_chosen_on_cpu(scheme: str) -> None:
    _, kind = check(scheme, "cpu")
    assert kind in ("reference", "weight-only")


@pytest.mark.gpu
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_kernel_chosen_on_a_gpu(scheme: str) -> None:
    _, kind = check(scheme, "cuda")
    assert kind != "reference"


@pytest.mark.gpu
@pytest.mark.parametrize("scheme", ["NVFP4", "MXFP8"])
def test_a_weight_only_kernel_is_far_from_the_whole_format(scheme: str) -> None:
    layer, packed = linear(scheme, "cuda")
    if kind_of(layer) != "weight-only":
        pytest.skip(f"this GPU quantizes inputs of {scheme}")
    x = inputs(64, device="cuda")
    assert error(layer, packed, x, weight_only=False) > ROUNDING_OF_INPUTS


@pytest.mark.gpu
@pytest.mark.parametrize("scheme", ["NVFP4", "MXFP8"])
def test_vllms_emulation_on_a_gpu(scheme: str) -> None:
    from vllm.model_executor.kernels import linear as kernels

    emulations = {
        "NVFP4": kernels.EmulationNvFp4LinearKernel,
        "MXFP8": kernels.EmulationMxfp8LinearKernel,
    }
    assert check(scheme, "cuda", emulations[scheme])[1] == "emulated"


@pytest.mark.gpu
@pytest.mark.parametrize(("scheme", "least"), [("FP8", (8, 9)), ("W4A16", (7, 5))])
def test_hopper_runs_these_on_kernels_made_for_them(scheme: str, least: tuple[int, int]) -> None:
    if torch.cuda.get_device_capability() < least:
        pytest.skip(f"{scheme} needs compute capability {least}")
    name, kind = check(scheme, "cuda")
    assert kind == ("native" if scheme == "FP8" else "weight-only"), name
