"""A layer of every format with random codes, its kernel, its weight in float64, its rounding."""

import numpy as np
import torch
from formats_by_definition import (
    E2M1,
    E4M3,
    quantized_fp8,
    quantized_int8,
    quantized_mxfp4,
    quantized_mxfp8,
    quantized_nvfp4,
)

from workbench.torchvision_ops import define_missing

define_missing()

from vllm.model_executor.kernels import linear as kernels  # noqa: E402
from vllm.model_executor.layers.quantization.utils.quant_utils import (  # noqa: E402
    kFp8DynamicTensorSym,
    kFp8DynamicTokenSym,
    kFp8StaticTensorSym,
    kFp8StaticTokenSym,
    kMxfp4Dynamic,
)
from vllm.scalar_type import scalar_types  # noqa: E402

from workbench.serve.cpu import wna16  # noqa: E402

IN, OUT, GROUP = 128, 48, 64


def double(tensor):
    return tensor.detach().double().numpy()


def e4m3_of(codes):
    sign = np.where(codes >= 128, -1.0, 1.0)
    return sign * E4M3[codes % 128]


def fp4_weight(generator):
    """Codes of every weight: packed by hand, and their values."""
    codes = generator.integers(0, 16, (OUT, IN))
    packed = torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
    return packed, np.where(codes >= 8, -1.0, 1.0) * E2M1[codes % 8]


def e8m0(generator):
    bytes_ = generator.integers(115, 125, (OUT, IN // 32)).astype(np.uint8)
    return torch.from_numpy(bytes_), np.repeat(2.0 ** (bytes_.astype(float) - 127), 32, axis=1)


def fp8_codes(generator, shape=(OUT, IN)):
    codes = generator.integers(0, 256, shape)
    codes[codes % 128 == 127] = 0  # NaN
    stored = torch.from_numpy(codes.astype(np.uint8)).view(torch.float8_e4m3fn)
    return stored, e4m3_of(codes)


def module(**tensors):
    layer = torch.nn.Module()
    for name, value in tensors.items():
        setattr(layer, name, torch.nn.Parameter(value, requires_grad=False))
    layer.logical_widths, layer.bias = [OUT], None
    return layer


def nvfp4(generator):
    packed, values = fp4_weight(generator)
    scale, scales = fp8_codes(generator, (OUT, IN // 16))
    weight = values * np.repeat(scales, 16, axis=1) * 0.5**12
    layer = module(
        weight=packed,
        weight_scale=scale,
        weight_global_scale=torch.tensor(0.5**12),
        input_global_scale=torch.tensor(0.003),
    )
    return (
        kernels.init_nvfp4_linear_kernel(),
        layer,
        weight,
        lambda x: quantized_nvfp4(x, double(layer.input_global_scale)),
    )


def mxfp4(generator):
    packed, values = fp4_weight(generator)
    scale, scales = e8m0(generator)
    kernel = kernels.init_mxfp4_linear_kernel(activation_quant_key=kMxfp4Dynamic)
    return kernel, module(weight=packed, weight_scale=scale), values * scales, quantized_mxfp4


def mxfp8(generator):
    stored, values = fp8_codes(generator)
    scale, scales = e8m0(generator)
    layer = module(weight=stored, weight_scale=scale)
    return kernels.init_mxfp8_linear_kernel(), layer, values * scales, quantized_mxfp8


def fp8(generator, activation, weight_key, scales, quantize, **tensors):
    stored, values = fp8_codes(generator)
    kernel = kernels.init_fp8_linear_kernel(activation, weight_key, torch.bfloat16, None, (OUT, IN))
    layer = module(weight=stored.t(), weight_scale=scales, **tensors)
    return kernel, layer, values * double(scales).reshape(-1, 1), quantize


def fp8_static(generator):
    scale = torch.tensor(2.0**-6)  # exact quotients: no ties that fall either way
    return fp8(
        generator, kFp8StaticTensorSym, kFp8StaticTensorSym, torch.tensor(1e-3),
        lambda x: quantized_fp8(x, double(scale)), input_scale=scale,
    )  # fmt: skip


def fp8_dynamic(generator):
    return fp8(
        generator, kFp8DynamicTensorSym, kFp8StaticTensorSym, torch.tensor(1e-3), quantized_fp8
    )


def fp8_per_channel(generator):
    scales = torch.from_numpy(generator.uniform(1e-4, 1e-3, OUT).astype(np.float32))
    return fp8(
        generator, kFp8DynamicTokenSym, kFp8StaticTokenSym, scales,
        lambda x: quantized_fp8(x, axis=-1),
    )  # fmt: skip


def int8(generator):
    codes = generator.integers(-127, 128, (OUT, IN))
    scales = torch.from_numpy(generator.uniform(1e-4, 1e-3, (OUT, 1)).astype(np.float32))
    kernel = kernels.init_int8_linear_kernel(
        is_channelwise=True, is_static_input_scheme=False, input_symmetric=True, module_name="int8"
    )
    layer = module(weight=torch.from_numpy(codes.astype(np.int8)), weight_scale=scales)
    for name in ("input_scale", "input_zero_point", "azp_adj"):
        setattr(layer, name, None)
    return kernel, layer, codes * double(scales), quantized_int8


def integers(bits, kind):
    def made(generator):
        per_word = 32 // bits
        codes = generator.integers(0, 2**bits, (IN, OUT))
        words = np.zeros((IN // per_word, OUT), np.uint32)
        for row in range(IN):
            words[row // per_word] |= codes[row].astype(np.uint32) << bits * (row % per_word)
        scales = generator.uniform(1e-3, 1e-2, (IN // GROUP, OUT)).astype(np.float32)
        layer = module(qweight=torch.from_numpy(words.view(np.int32)), scales=torch.tensor(scales))
        layer.register_parameter("qzeros", None)
        config = kernels.MPLinearLayerConfig(
            (IN, OUT), (IN, OUT), kind, torch.float32, GROUP, False
        )
        kernel = wna16.ReferenceWNA16LinearKernel(config, "qweight", "scales", "qzeros")
        weight = (codes - 2 ** (bits - 1)) * np.repeat(scales.astype(float), GROUP, axis=0)
        return kernel, layer, weight.T, lambda x: x

    return made


FORMATS = {
    "NVFP4": nvfp4,
    "MXFP8": mxfp8,
    "MXFP4": mxfp4,
    "FP8": fp8_static,
    "FP8 online": fp8_dynamic,
    "FP8_PER_CHANNEL_PER_TOKEN": fp8_per_channel,
    "INT8": int8,
    "W4A16": integers(4, scalar_types.uint4b8),
    "W8A16": integers(8, scalar_types.uint8b128),
}
