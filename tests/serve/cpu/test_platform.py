"""The platform that vLLM-Omni gets where there is no accelerator."""

import subprocess
import sys

import pytest

from workbench.serve.cpu import omni_platform
from workbench.torchvision_ops import define_missing

define_missing()


def test_it_is_active_on_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.platforms import current_platform

    assert omni_platform() == "workbench.serve.cpu.platform.CpuOmniPlatform"
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda self: False)
    assert omni_platform() is None


def test_vllm_omni_finds_it_in_a_fresh_process_by_its_entry_point() -> None:
    code = "from vllm_omni.platforms import current_omni_platform as p; print(type(p).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "CpuOmniPlatform" in done.stdout, done.stderr[-2000:]


def test_another_attention_backend_is_refused() -> None:
    from workbench.serve.cpu.platform import CpuOmniPlatform

    with pytest.raises(ValueError, match="TORCH_SDPA"):
        CpuOmniPlatform.get_diffusion_attn_backend_cls("FLASH_ATTN", 128)
