"""Scaled-dot-product attention for a platform that vLLM-Omni's dispatch does not know."""

from __future__ import annotations

from vllm_omni.diffusion.attention.backends.sdpa import SDPABackend, SDPAImpl


class CpuSDPAImpl(SDPAImpl):
    """torch SDPA, with the mask layout of the CUDA path."""

    forward = SDPAImpl.forward_cuda


class CpuSDPABackend(SDPABackend):
    """``TORCH_SDPA`` on CPU."""

    @staticmethod
    def get_impl_cls() -> type[CpuSDPAImpl]:
        return CpuSDPAImpl
