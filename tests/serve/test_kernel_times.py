"""What a kernel's name says of its work, and real operators of a small module."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from workbench.serve.kernel_times import KINDS, KernelTimes, _covered, kind_of

AT = "void at::native::"
NAMES = [  # as these libraries call them, shortened in their template arguments
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)", "communication"),
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>()", "attention"),
    (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<>>>()",
        "attention",
    ),
    ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)", "attention"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "attention"),
    (f"{AT}(anonymous namespace)::softmax_warp_forward<float, float>()", "attention"),
    ("void vllm::dynamic_per_token_scaled_fp8_quant_kernel_strided<c10::BFloat16>()", "quantize"),
    ("void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8>()", "quantize"),
    ("void vllm::dynamic_scaled_int8_quant_kernel<c10::BFloat16, float>()", "quantize"),
    ("void vllm::cvt_fp16_to_fp4_quant<__nv_bfloat16>()", "quantize"),
    ("nvjet_tst_192x192_64x3_1x2_h_bz_coopB_NNT", "GEMM"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "GEMM"),
    ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<>>()", "GEMM"),
    ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8", "GEMM"),
    (
        "void cutlass::device_kernel<vllm::cutlass_3x_gemm<cutlass::float_e4m3_t, "
        "vllm::c3x::ScaledEpilogue>::GemmKernel>()",
        "GEMM",
    ),
    ("void cutlass::device_kernel<machete::MacheteKernelTemplate<cutlass::bf16>>()", "GEMM"),
    ("void marlin::Marlin<__nv_bfloat16, 256, 1, 8, 8, 4, 8>()", "GEMM"),
    ("void marlin_gemm::gptq_marlin_repack_kernel<256, 4, false>()", "GEMM"),
    ("void cutlass::device_kernel<cutlass::gemm::kernel::Mx_ElementA_fp4>()", "GEMM"),
    ("sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_cudnn", "convolution"),
    ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>()", "convolution"),
    (f"{AT}conv_depthwise3d_cuda_kernel<c10::BFloat16, float>()", "convolution"),
    ("Memcpy HtoD (Pinned -> Device)", "copy"),
    ("Memcpy DtoD (Device -> Device)", "copy"),
    ("Memset (Device)", "copy"),
    (f"{AT}(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int>()", "copy"),
    (f"{AT}elementwise_kernel<128, 4, gpu_kernel_impl<direct_copy_kernel_cuda()>>()", "copy"),
    (f"{AT}(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>()", "norm"),
    ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>()", "norm"),
    (f"{AT}(anonymous namespace)::RowwiseMomentsCUDAKernel<c10::BFloat16>(long)", "norm"),
    ("triton_red_fused_add_mul_native_layer_norm_3", "norm"),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_2", "norm"),
    ("triton_red_fused__to_copy_abs_clamp_max_mul_reciprocal_unsqueeze_0", "quantize"),
    ("triton_red_fused_abs_cat_gelu_max_view_3", "quantize"),
    ("triton_poi_fused__to_copy_cat_clamp_gelu_mul_reciprocal_unsqueeze_view_5", "quantize"),
    ("triton_poi_fused_add_gelu_mul_5", "elementwise"),
    ("triton_poi_fused__to_copy_add_mul_transpose_view_1", "elementwise"),
    ("triton_poi_fused_convolution_silu_4", "elementwise"),
    ("triton_tem_fused_addmm_mm_7", "GEMM"),
    (f"{AT}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<bf16>>()", "elementwise"),
    ("void spin_kernel(long)", "other"),
    ("aten::addmm", "GEMM"),
    ("aten::mm", "GEMM"),
    ("aten::scaled_dot_product_attention", "attention"),
    ("aten::_softmax", "attention"),
    ("aten::copy_", "copy"),
    ("aten::native_layer_norm", "norm"),
    ("aten::normal_", "other"),
    ("aten::gelu", "elementwise"),
    ("aten::mkldnn_convolution", "convolution"),
]


@pytest.mark.parametrize(("name", "kind"), NAMES, ids=[name[:60] for name, _ in NAMES])
def test_a_kernel_is_known_by_its_name(name, kind):
    assert kind_of(name) == kind


def test_every_kind_has_a_kernel_in_the_table():
    assert {kind for kind, _ in KINDS} | {"other"} == {kind for _, kind in NAMES}


@pytest.mark.parametrize(
    ("spans", "length"),
    [
        ([], 0.0),
        ([(1.0, 3.0)], 2.0),
        ([(1.0, 3.0), (4.0, 5.0)], 3.0),  # apart
        ([(1.0, 3.0), (3.0, 5.0)], 4.0),  # one after the other
        ([(1.0, 3.0), (2.0, 5.0)], 4.0),  # on two streams at once
        ([(1.0, 9.0), (2.0, 3.0), (8.0, 10.0)], 9.0),  # one within another
        ([(4.0, 5.0), (1.0, 2.0)], 2.0),  # in no order
        ([(1.0, 2.0), (1.0, 2.0)], 1.0),
    ],
)
def test_busy_is_the_union_of_what_ran(spans, length):
    assert _covered(iter(spans)) == pytest.approx(length)


def test_the_operators_of_a_module_add_up_to_less_than_the_wall_time():
    network = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.LayerNorm(512), torch.nn.GELU()
    )
    inputs = torch.randn(256, 512)
    with torch.inference_mode():
        network(inputs)
        watched = KernelTimes(cuda=False)
        for _ in range(5):
            network(inputs)
        seen = watched.finish()
    rows = {row["kernel"]: row for row in seen["rows"]}
    assert rows["aten::addmm"]["calls"] == 5
    assert rows["aten::addmm"]["kind"] == "GEMM"
    assert rows["aten::native_layer_norm"]["kind"] == "norm"
    assert rows["aten::gelu"]["calls"] == 5
    seconds = [row["seconds"] for row in seen["rows"]]
    assert seconds == sorted(seconds, reverse=True)
    assert min(seconds) >= 0
    assert seen["busy_s"] == pytest.approx(sum(seconds))
    assert 0 < seen["busy_s"] < seen["wall_s"] * 1.05  # no operator's time is counted twice


def test_nothing_is_watched_after_the_end():
    watched = KernelTimes(cuda=False)
    torch.ones(3) + 1
    calls = {row["kernel"]: row["calls"] for row in watched.finish()["rows"]}
    assert calls["aten::add"] == 1
    torch.ones(3) + 1
    again = KernelTimes(cuda=False)
    assert not [row for row in again.finish()["rows"] if row["kernel"] == "aten::add"]


def test_what_other_threads_run_is_seen_whichever_thread_asks():
    def elsewhere(work):
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(work).result()

    watch = elsewhere(lambda: KernelTimes(cuda=False))
    elsewhere(lambda: torch.ones(8, 8) @ torch.ones(8, 8))
    assert "aten::mm" in {row["kernel"] for row in elsewhere(watch.finish)["rows"]}
