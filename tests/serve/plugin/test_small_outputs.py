"""What a worker process sends; that no context is opened is seen on a GPU (test_gpu_isolation)."""

import torch
from vllm_omni.diffusion import ipc

from workbench.serve.plugin import small_outputs


class Elsewhere(torch.Tensor):
    """Stands for a tensor on a GPU: a copy of it on the CPU is a plain one."""

    def cpu(self):
        return torch.Tensor.cpu(self).as_subclass(torch.Tensor)


def test_a_small_tensor_is_copied_to_the_cpu_and_a_large_one_goes_to_shared_memory():
    small_outputs.register()
    small = torch.arange(3.0).as_subclass(Elsewhere)
    sent = ipc._pack_tensor_if_large(small)
    assert type(sent) is torch.Tensor
    assert sent.tolist() == [0.0, 1.0, 2.0]
    large = torch.ones(ipc._SHM_TENSOR_THRESHOLD)
    handle = ipc._pack_tensor_if_large(large, d2h_stream=None, created=[])
    assert handle["__tensor_shm__"]
    assert torch.equal(ipc._tensor_from_shm(handle), large)


def test_again_is_harmless():
    small_outputs.register()
    once = ipc._pack_tensor_if_large
    small_outputs.register()
    assert ipc._pack_tensor_if_large is once
