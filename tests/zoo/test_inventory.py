"""What a linear's tensors say of its scheme, shape and groups."""

import json
import struct
from math import prod
from pathlib import Path

import pytest

from workbench.zoo.headers import BITS
from workbench.zoo.inventory import linears

Parts = dict[str, tuple[str, tuple[int, ...]]]


def stored(folder: Path, parts: Parts) -> Path:
    header, end = {}, 0
    for name, (dtype, shape) in parts.items():
        size = prod(shape) * BITS[dtype] // 8
        entry = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        header[f"layer.{name}"] = entry
        end += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    return folder


@pytest.mark.parametrize(
    ("parts", "scheme", "shape", "group"),
    [
        ({"weight": ("BF16", (64, 256))}, "BF16", (64, 256), 0),
        (
            {"qweight": ("I32", (32, 64)), "qzeros": ("I32", (2, 8)), "scales": ("F16", (2, 64))},
            "W4A16", (64, 256), 128,
        ),
        (
            {"qweight": ("I32", (64, 64)), "qzeros": ("I32", (8, 16)), "scales": ("F16", (8, 64))},
            "W8A16", (64, 256), 32,
        ),
        (  # AWQ packs outputs
            {"qweight": ("I32", (256, 8)), "qzeros": ("I32", (2, 8)), "scales": ("F16", (2, 64))},
            "W4A16", (64, 256), 128,
        ),
        ({"weight": ("F8_E4M3", (64, 256)), "weight_scale": ("F32", ())}, "FP8", (64, 256), 0),
        ({"weight": ("F8_E4M3", (64, 256))}, "FP8", (64, 256), 0),
        (
            {"weight": ("F8_E4M3", (64, 256)), "weight_scale": ("F32", (64, 1))},
            "FP8_PER_CHANNEL_PER_TOKEN", (64, 256), 0,
        ),
        (
            {"weight": ("F8_E4M3", (256, 256)), "weight_scale": ("F32", (2, 1, 2, 1))},
            "unknown", (256, 256), 0,
        ),
        (
            {"weight": ("F8_E4M3", (64, 256)), "weight_scale": ("U8", (64, 8))},
            "MXFP8", (64, 256), 32,
        ),
        (
            {"weight": ("U8", (64, 128)), "weight_scale": ("F8_E4M3", (64, 16))},
            "NVFP4", (64, 256), 16,
        ),
        (
            {"weight_packed": ("U8", (64, 128)), "weight_scale": ("U8", (64, 8))},
            "MXFP4", (64, 256), 32,
        ),
        (  # compressed-tensors
            {"weight_packed": ("I32", (64, 32)), "weight_scale": ("BF16", (64, 2))},
            "unknown", (64, 32), 128 // 8,
        ),
        ({"weight": ("I8", (64, 256)), "weight_scale": ("F32", (64, 1))}, "unknown", (64, 256), 0),
    ],
)  # fmt: skip
def test_tensors_tell_the_scheme(
    parts: Parts, scheme: str, shape: tuple[int, int], group: int, tmp_path: Path
) -> None:
    (linear,) = linears(stored(tmp_path, parts)).values()
    assert (linear.scheme, linear.shape, linear.group) == (scheme, shape, group)


def test_convolutions_norms_and_scalars_are_no_linears(tmp_path: Path) -> None:
    for parts in (
        {"weight": ("F32", (4, 4, 3, 3))},
        {"weight": ("F32", (4,))},
        {"weight": ("F32", ())},
    ):
        assert linears(stored(tmp_path, parts)) == {}
