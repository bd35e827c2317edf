"""Loaded weights are read back through their kernels and held against their source."""

import dataclasses
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

import workbench as wb
from workbench import zoo
from workbench.errors import PrecisionNotApplied
from workbench.records import Checkpoint, GenerationSet
from workbench.serve.cpu import formats
from workbench.serve.readback import read_back
from workbench.specs import ModelRef

WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"
QUERY = "transformer_blocks.0.attn.to_q"
KEY = "transformer_blocks.0.attn.to_k"


class Layer(torch.nn.Module):
    """Rank 1 of 2 of two linears in one layer, its inputs rounded by ``rounded``."""

    def __init__(self, weight: torch.Tensor, widths: list[int], rounded=lambda x: x) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.params_dtype = weight.dtype
        self.input_size_per_partition = weight.shape[1]
        self.output_partition_sizes = widths
        self.tp_rank = 1
        self.quant_method = SimpleNamespace(
            apply=lambda layer, x, bias: rounded(x).to(x.dtype) @ layer.weight.t()
        )


@pytest.fixture
def linears(tmp_path: Path) -> dict[str, torch.Tensor]:
    """Two linears of a file, [32, 64] and [16, 64], and the file."""
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "q": torch.randn(32, 64, generator=generator, dtype=torch.bfloat16),
        "k": torch.randn(16, 64, generator=generator, dtype=torch.bfloat16),
    }
    save_file({f"{n}.weight": t for n, t in tensors.items()}, tmp_path / "source.safetensors")
    return tensors


def sample(tmp_path: Path, *names: str) -> dict:
    file = str(tmp_path / "source.safetensors")
    shapes = {"q": (32, 64), "k": (16, 64)}
    members = [
        {"part": name, "shape": shapes[name], "scheme": "BF16", "files": {"weight": file}}
        for name in names
    ]
    return {"members": members, "scale": -1.0}


@pytest.mark.parametrize("split", ["outputs", "inputs"])
def test_a_rank_is_compared_with_its_own_shard(
    tmp_path: Path, linears: dict[str, torch.Tensor], split: str
) -> None:
    q, k = linears["q"], linears["k"]
    if split == "outputs":
        layer = Layer(torch.cat([q[16:], k[8:]]), [16, 8])
        answer = read_back(layer, sample(tmp_path, "q", "k"))
        assert set(answer["errors"]) == {
            f"{half} half of {name}" for half in ("first", "second") for name in "qk"
        }
    else:
        answer = read_back(Layer(q[:, 32:].contiguous(), [32]), sample(tmp_path, "q"))
    assert answer["error"] == 0
    assert answer["inputs"] == "16-bit"


def test_the_part_that_is_wrong_is_named(tmp_path: Path, linears: dict[str, torch.Tensor]) -> None:
    q, k = linears["q"][16:], linears["k"][8:].clone()
    k[4:] *= 2
    answer = read_back(Layer(torch.cat([q, k]), [16, 8]), sample(tmp_path, "q", "k"))
    assert answer["errors"]["second half of k"] == pytest.approx(1)
    assert sum(answer["errors"].values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "rounded"),
    [
        ("FP8", lambda x: formats.to_e4m3(x, x.abs().amax(-1, keepdim=True) / 448).float()
            * x.abs().amax(-1, keepdim=True) / 448),
        ("INT8", lambda x: torch.round(x.float() * 127) / 127),
        ("NVFP4", lambda x: formats.nvfp4_rounded(x, torch.tensor(1 / (6 * 64)))),
        ("MXFP8", formats.mxfp8_rounded),
        ("MXFP4", formats.mxfp4_rounded),
    ],
)  # fmt: skip
def test_what_a_layer_does_to_its_inputs_is_measured(
    tmp_path: Path, linears: dict[str, torch.Tensor], name: str, rounded
) -> None:
    layer = Layer(linears["q"][16:], [16], rounded)
    answer = read_back(layer, sample(tmp_path, "q"))
    assert answer["inputs"] == name
    assert answer["error"] < 0.002  # one-hot rows pass every format unharmed


def test_what_cannot_be_read_back_is_said(tmp_path: Path, linears: dict[str, torch.Tensor]) -> None:
    layer = Layer(linears["q"][16:], [16], lambda x: x / 0)
    assert "not finite" in read_back(layer, sample(tmp_path, "q"))["failed"]
    layer.quant_method = SimpleNamespace(apply=lambda *_, **__: 1 / 0)
    assert "ZeroDivisionError" in read_back(layer, sample(tmp_path, "q"))["failed"]


@pytest.mark.parametrize(
    ("precision", "low", "high", "inputs"),
    [
        ("BF16", 0, 0, "16-bit"),
        ("FP8", 0.02, 0.03, "FP8 per tensor"),
        ("INT8", 0.003, 0.02, "INT8 per token"),
        ("W4A16", 0.05, 0.2, "16-bit"),
    ],
)
def test_every_precision_of_the_engine_is_proved(
    sets: dict[str, GenerationSet], precision: str, low: float, high: float, inputs: str
) -> None:
    audit = sets[precision].audit
    shown = [layer for layer in audit.layers if layer.quantized] or audit.layers
    errors = [layer.weight_error for layer in shown if layer.weight_error is not None]
    assert len(errors) > 8
    assert low <= min(errors) <= max(errors) <= high
    assert {layer.activations for layer in shown} == {inputs}
    assert all(not layer.weight_error for layer in audit.kept)
    assert audit.proved.startswith("weights read back against")


def copied(checkpoint: Checkpoint, folder: Path) -> tuple[Checkpoint, dict[str, torch.Tensor]]:
    shutil.copytree(checkpoint.path, folder)
    return dataclasses.replace(checkpoint, path=folder), load_file(folder / WEIGHTS)


def test_doubled_scales_of_one_layer_are_refused_by_name(
    w4a16: Checkpoint, tmp_path: Path, runs: Path
) -> None:
    tampered, tensors = copied(w4a16, tmp_path / "doubled")
    tensors["transformer_blocks.1.img_mlp.net.2.scales"] *= 2
    save_file(tensors, tampered.path / WEIGHTS)
    with pytest.raises(
        PrecisionNotApplied, match=r"transformer_blocks\.1\.img_mlp\.net\.2, .* scales lost or"
    ):
        wb.launch(tampered)


def test_crossed_scales_inside_a_fused_layer_are_refused_by_name(
    w4a16: Checkpoint, tmp_path: Path, runs: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(zoo.locate(w4a16.model), source)
    original = load_file(source / WEIGHTS)
    original[f"{KEY}.weight"] *= 4  # as a trained model's keys and queries differ in size
    save_file(original, source / WEIGHTS)
    tampered, tensors = copied(w4a16, tmp_path / "crossed")
    own = 4 * tensors[f"{KEY}.scales"]
    tensors[f"{KEY}.scales"] = tensors[f"{QUERY}.scales"].clone()
    tensors[f"{QUERY}.scales"] = own
    save_file(tensors, tampered.path / WEIGHTS)
    tampered = dataclasses.replace(tampered, model=zoo.pin(ModelRef(source)))
    with pytest.raises(PrecisionNotApplied, match=rf"attn\.to_qkv.*half of {QUERY}"):
        wb.launch(tampered)
