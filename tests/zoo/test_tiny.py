import filecmp
import json
from pathlib import Path

import numpy as np
import pytest

from workbench import bf16, zoo
from workbench.errors import SpecError
from workbench.zoo.tiny import WIDTH, build_tiny
from workbench.zoo.training.tokenizer import PREFIX_TOKENS
from workbench.zoo.weights import tensors, weight_bytes

PROMPT = "a teapot on a wooden table"


def pixels(folder: Path, prompt: str = PROMPT, seed: int = 0) -> np.ndarray:
    import diffusers
    import torch

    bf16.register()
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder, dtype=torch.bfloat16)
    pipeline.set_progress_bar_config(disable=True)
    sampling = {k: v for k, v in zoo.default_sampling(folder).items() if k != "fps"}
    generator = torch.Generator().manual_seed(seed)
    out = pipeline(
        prompt, generator=generator, output_type="np", **{**sampling, "num_inference_steps": 2}
    )
    return np.asarray(out.frames if hasattr(out, "frames") else out.images)


def files(folder: Path) -> list[str]:
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())


@pytest.mark.parametrize(
    ("fixture", "shape"),
    [
        ("tiny_qwen", (1, 128, 128, 3)),
        ("tiny_flux", (1, 128, 128, 3)),
        ("tiny_wan", (1, 5, 128, 128, 3)),
    ],
)
def test_diffusers_generates_and_hears_the_prompt(
    fixture: str, shape: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(fixture)
    first, other = pixels(folder), pixels(folder, "two red cars in the snow")
    assert first.shape == shape
    assert np.isfinite(first).all()
    assert first.std() > 0.05
    assert not np.array_equal(first, other)
    assert np.array_equal(first, pixels(folder))


@pytest.mark.parametrize("family", ["qwen-image", "flux", "wan"])
def test_the_same_arguments_give_the_same_bytes(family: str, tmp_path: Path) -> None:
    one, two, other = (
        build_tiny(family, tmp_path / name, layers=1, seed=seed)
        for name, seed in (("one", 0), ("two", 0), ("other", 1))
    )
    assert files(one) == files(two)
    assert filecmp.cmpfiles(one, two, files(one), shallow=False)[1:] == ([], [])
    assert filecmp.cmpfiles(one, other, files(one), shallow=False)[1]


def test_qwen_template_prefix_is_what_the_pipeline_drops(tiny_qwen: Path) -> None:
    from diffusers import QwenImagePipeline
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_qwen / "tokenizer")
    pipeline = QwenImagePipeline.from_pretrained(tiny_qwen)
    prefix = pipeline.prompt_template_encode.partition("{}")[0]
    assert (
        len(tokenizer(prefix).input_ids)
        == PREFIX_TOKENS
        == pipeline.prompt_template_encode_start_idx
    )


def test_clip_pools_at_the_last_token(tiny_flux: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_flux / "tokenizer")
    ids = tokenizer(PROMPT).input_ids
    assert (
        ids[-1]
        == max(ids)
        == json.loads((tiny_flux / "text_encoder/config.json").read_text())["eos_token_id"]
    )


def test_weights_are_bf16_and_fit_groups_of_128(tiny_qwen: Path, tiny_wan: Path) -> None:
    facts = tensors(tiny_qwen / "transformer")
    assert {fact.dtype for fact in facts.values()} == {"BF16"}
    blocks = [f.shape[1] for n, f in facts.items() if "blocks" in n and len(f.shape) == 2]
    assert all(inputs % 128 == 0 for inputs in blocks)
    assert {fact.dtype for fact in tensors(tiny_wan / "vae").values()} == {"F32"}, "as Wan ships it"


def test_two_experts_are_two_transformers(tiny_wan: Path) -> None:
    index = json.loads((tiny_wan / "model_index.json").read_text())
    assert index["boundary_ratio"] == 0.875
    sizes = weight_bytes(tiny_wan)
    assert sizes["transformer"] == sizes["transformer_2"]
    assert not filecmp.cmp(
        *(next((tiny_wan / n).glob("*.safetensors")) for n in ("transformer", "transformer_2"))
    )


def test_card_gives_the_default_sampling(tiny_qwen: Path) -> None:
    sampling = zoo.default_sampling(tiny_qwen)
    assert (sampling["height"], sampling["width"], sampling["true_cfg_scale"]) == (128, 128, 4.0)


def test_no_path_of_this_machine_is_written(
    tiny_qwen: Path, tiny_flux: Path, tiny_wan: Path
) -> None:
    for folder in (tiny_qwen, tiny_flux, tiny_wan):
        texts = [f.read_text() for f in folder.rglob("*.json")]
        assert not any(str(folder.parent) in text for text in texts)


@pytest.mark.parametrize(("family", "experts"), [("sdxl", 1), ("flux", 2), ("wan", 3)])
def test_unknown_requests_are_refused(family: str, experts: int, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"there are|wan has 1 or 2"):
        build_tiny(family, tmp_path / "x", experts=experts)
    assert not (tmp_path / "x").exists()


def test_width_is_shared_by_all_families(tiny_flux: Path) -> None:
    assert tensors(tiny_flux / "transformer")["context_embedder.weight"].shape == (WIDTH, WIDTH)
