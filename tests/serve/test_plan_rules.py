"""Each rule at its edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.serve import plan_rules as rules
from workbench.serve.shards import final_problem, share_of
from workbench.specs import Parallelism, Sampling
from workbench.zoo.families import family_named
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.parallel import support_of
from workbench.zoo.presets import preset_of
from workbench.zoo.sizes import frames_problem
from workbench.zoo.weights import TensorFacts

QWEN, FLUX, Z_IMAGE = (support_of(name) for name in ("qwen-image", "flux", "z-image"))
TP2 = Parallelism(tensor_parallel_size=2)
U2 = Parallelism(ulysses_degree=2)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "sizes", "says"),
    [
        (32, 8, {"tensor_parallel_size": 8}, None),
        (32, 8, {"tensor_parallel_size": 16}, None),  # each key head twice
        (24, 8, {"tensor_parallel_size": 3}, "do not divide one another"),
        (32, 8, {"tensor_parallel_size": 4, "ulysses_degree": 4}, "2 key and value heads"),
        (24, None, {"tensor_parallel_size": 3, "ulysses_degree": 8}, None),
        (4, None, {"tensor_parallel_size": 8}, r"does not divide the 4"),
    ],
)
def test_heads(heads: int, kv_heads: int | None, sizes: dict[str, int], says: str | None) -> None:
    found = rules.heads_problem("transformer", heads, Parallelism(**sizes), kv_heads)
    assert found is None if says is None else says in found


@pytest.mark.parametrize(
    ("support", "sizes", "tokens", "says"),
    [
        (QWEN, {"ulysses_degree": 3}, 4096, None),  # padded, with a mask
        (QWEN, {"ring_degree": 3}, 4096, "4096 tokens do not divide among 3"),
        (QWEN, {"ring_degree": 2, "ulysses_degree": 3}, 4096, "among 6"),
        (QWEN, {"ring_degree": 4}, 4096, None),
        (Z_IMAGE, {"ulysses_degree": 5}, 4000, "hangs on the prompt"),
        (Z_IMAGE, {"ulysses_degree": 2}, 4095, None),
    ],
)
def test_sequence(support, sizes: dict[str, int], tokens: int, says: str | None) -> None:
    found = rules.sequence_problem(support, Parallelism(**sizes), tokens)
    assert found is None if says is None else says in found


def test_what_a_family_ignores() -> None:
    assert not list(rules.support_problems(QWEN, Parallelism(ulysses_degree=2, ring_degree=2)))
    (found,) = rules.support_problems(FLUX, U2)
    assert "save flux nothing" in found
    (found,) = rules.support_problems(support_of("ovis-image"), TP2)
    assert "one tensor-parallel rank" in found
    (found,) = rules.support_problems(Z_IMAGE, Parallelism(cfg_parallel_size=2))
    assert "cfg_parallel_size=2 is ignored by z-image" in found
    patched = Parallelism(tensor_parallel_size=2, vae_patch_parallel_size=2)
    assert rules.patches_problem(QWEN, patched) is None
    assert "ignored by flux" in rules.patches_problem(FLUX, patched)
    assert "more than the 2" in rules.patches_problem(QWEN, patched.but(vae_patch_parallel_size=3))


def test_two_branches_need_the_guidance_that_makes_them() -> None:
    two = Parallelism(cfg_parallel_size=2)
    assert (
        rules.guidance_problem(QWEN, two, Sampling(true_cfg_scale=1.5, negative_prompt="")) is None
    )
    distilled = Sampling(guidance_scale=3.5, negative_prompt="")
    assert "true_cfg_scale=None" in rules.guidance_problem(FLUX, two, distilled)
    assert rules.guidance_problem(FLUX, TP2, distilled) is None


@pytest.mark.parametrize(
    ("family", "frames", "says"),
    [
        ("wan", 81, None),
        ("wan", 1, None),
        ("wan", 80, None),
        ("wan", None, None),
        ("flux", 1, "draws images"),
    ],
)
def test_frames(family: str, frames: int | None, says: str | None) -> None:
    found = frames_problem(family_named(family), Sampling(num_frames=frames))
    assert found is None if says is None else says in found


def linear(name: str, scheme: str, shape: tuple[int, int], **parts: tuple[int, ...]):
    facts = {
        part: TensorFacts(file=Path("f"), dtype="F8_E4M3", shape=size)
        for part, size in parts.items()
    }
    return StoredLinear(name=name, scheme=scheme, shape=shape, tensors=facts)


@pytest.mark.parametrize(
    ("name", "scheme", "shape", "scale", "good", "bad"),
    [
        ("attn.to_out.0", "W4A16", (3072, 11008), {"scales": (86, 3072)}, 2, 4),
        ("attn.to_out.0", "W4A16", (3072, 128), {"scales": (1, 3072)}, 1, 2),  # the only group
        ("attn.to_q", "W4A16", (96, 256), {"scales": (2, 96)}, 3, 2),
        ("attn.to_out.0", "NVFP4", (64, 96), {"weight_scale": (64, 6)}, 3, 4),
        ("attn.to_out.0", "unknown", (512, 1280), {"weight_scale_inv": (4, 10)}, 5, 4),
        ("attn.to_q", "unknown", (640, 512), {"weight_scale_inv": (5, 4)}, 5, 2),
        ("attn.to_q", "FP8", (96, 64), {"weight_scale": ()}, 6, 4),
    ],
)
def test_packed_linears(name, scheme, shape, scale, good: int, bad: int) -> None:
    one = linear(f"transformer_blocks.0.{name}", scheme, shape, **scale)
    share = share_of(preset_of("qwen-image"), one, packed=True)
    assert share.problem(1) is None
    assert share.problem(good) is None
    assert f"cannot hold a multiple of {share.unit}" in share.problem(bad)
    plain = share_of(preset_of("qwen-image"), one, packed=False)
    assert "which 7 ranks cannot share evenly" in plain.problem(7)


def test_what_is_whole_everywhere_is_not_cut() -> None:
    preset = preset_of("qwen-image")
    for name in ("transformer_blocks.0.img_mod.1", "img_in"):
        assert share_of(preset, linear(name, "BF16", (7, 5), weight=(7, 5)), packed=False) is None


def test_the_final_projection_of_z_image() -> None:
    name = "all_final_layer.2-1.linear"
    assert "64 outputs" in final_problem(Z_IMAGE, name, 64, 3)
    assert final_problem(Z_IMAGE, name, 64, 2) is None
    assert final_problem(QWEN, "proj_out", 64, 3) is None
