"""Which INT8 kernel a CPU gets: vLLM's own if it adds up right."""

from pathlib import Path

import pytest

from workbench.torchvision_ops import define_missing

define_missing()

from vllm.model_executor.kernels import linear as kernels  # noqa: E402

from workbench.serve.cpu import int8  # noqa: E402

FLAGS = Path("/proc/cpuinfo")


def chosen() -> str:
    kernel = kernels.init_int8_linear_kernel(
        is_channelwise=True, is_static_input_scheme=False, input_symmetric=True, module_name="x"
    )
    return type(kernel).__name__


@pytest.mark.skipif(
    not FLAGS.exists() or "flags" not in FLAGS.read_text(), reason="x86 on Linux names its flags"
)
def test_sums_saturate_exactly_on_cpus_without_vnni() -> None:
    flags = set(FLAGS.read_text().split())
    assert int8.is_exact() == bool({"avx512_vnni", "avx_vnni", "amx_int8"} & flags)


@pytest.mark.parametrize("exact", [True, False])
def test_a_kernel_that_saturates_is_not_taken(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    int8.register()
    monkeypatch.setattr(int8, "is_exact", lambda: exact)
    assert chosen() == ("CPUInt8ScaledMMLinearKernel" if exact else "ReferenceInt8LinearKernel")
