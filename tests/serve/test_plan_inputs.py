"""What a plan is given: options, and files that are broken; each refusal says where."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from sparse_pipelines import VAE, bf16, qwen_image, save

import workbench as wb
from workbench.errors import ModelNotFound, SpecError
from workbench.serve.guards import check_launch
from workbench.serve.plan_result import Plan
from workbench.specs import LaunchSpec, ModelRef, Parallelism
from workbench.zoo.families import family_of
from workbench.zoo.models import fingerprint, has_random_weights

EMPTY = struct.pack("<Q", 2) + b"{}"
TRANSFORMER = "transformer/config.json"


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return qwen_image(tmp_path / "qwen")


def plan(folder: Path, **options: object) -> Plan:
    return wb.plan(str(folder), **{"gpus": 2, "gpu_memory_gib": 80, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"gpu_memory_gib": n}, "gpu_memory_gib=") for n in ("inf", float("inf"), 1e300, True)),
        ({"gpu_memory_gib": float("nan")}, "gpu_memory_gib=nan"),
        *(({"max_num_seqs": n}, "max_num_seqs=") for n in (0, True, 10**12)),
        *(({"sampling": one}, "give workbench.Sampling") for one in ({}, {"height": 512}, 3, "a")),
    ],
)
def test_options_that_mean_nothing(qwen: Path, options: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan(qwen, **options)


def test_steps_are_for_pipelines_that_step(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="steps qwen-image, not flux"):
        plan(qwen_image(tmp_path / "m", pipeline="FluxPipeline"), step_execution=True)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        *(
            (file, text, "")
            for file in ("model_index.json", "card.json", TRANSFORMER, "vae/config.json")
            for text in ("{", "[]", "null", "3", b"\xff\xfe", "[" * 100_000)
        ),
        ("model_index.json", '{"_class_name": ["QwenImagePipeline"]}', "no named class"),
        ("card.json", "{}", "says no sampling"),
        ("card.json", '{"sampling": [1]}', "sampling"),
        ("card.json", '{"sampling": {"height": 7}}', "height=7"),
        *(
            (TRANSFORMER, f'{{"num_attention_heads": {heads}}}', f"num_attention_heads={heads}")
            for heads in (0, -3, '"24"', "[24]", 2.5)
        ),
        (TRANSFORMER, "{}", "num_attention_heads"),
        (TRANSFORMER, '{"num_attention_heads": 24, "quantization_config": "fp8"}', '"fp8"'),
        ("vae/config.json", '{"block_out_channels": "wide"}', '"wide"'),
        ("vae/config.json", '{"temperal_downsample": 3}', "temperal_downsample=3"),
        ("vae/config.json", '{"base_dim": "96"}', 'base_dim="96"'),
        ("vae/config.json", '{"scale_factor_spatial": 0}', "scale_factor_spatial=0"),
        ("vae/config.json", '{"patch_size": -1}', "patch_size=-1"),
    ],
)
def test_a_broken_file_is_named(qwen: Path, file: str, content: str | bytes, says: str) -> None:
    (qwen / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelNotFound) as caught:
        plan(qwen)
    assert says in str(caught.value)
    named = qwen if says == "no named class" else qwen / file
    assert str(named) in str(caught.value)
    assert any(step in str(caught.value) for step in ("again", "remove", "the workbench knows"))


def test_launches_read_with_the_same_reader(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.serve.guards.gpus", list)
    family, spec = family_of(qwen), LaunchSpec(model=ModelRef(str(qwen)))
    (qwen / TRANSFORMER).write_text('{"num_attention_heads": null}')
    with pytest.raises(ModelNotFound, match=r"transformer/config\.json has none of num_att"):
        check_launch(spec, family, qwen)
    (qwen / "card.json").write_text("[]")
    with pytest.raises(ModelNotFound, match=r"card\.json"):
        has_random_weights(qwen)
    (qwen / "model_index.json").write_text("{")
    with pytest.raises(ModelNotFound, match=r"model_index\.json"):
        fingerprint(qwen)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        EMPTY,
        struct.pack("<Q", 100) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 10**6) + b"[" * 10**6,
        struct.pack("<Q", 61) + b'{"a.weight": {"dtype": [], "shape": [1], "data_offsets": [0, 2]}',
    ],
)
@pytest.mark.parametrize("part", ["transformer", "text_encoder"])
def test_a_header_that_is_empty_or_cut_is_named(qwen: Path, part: str, content: bytes) -> None:
    (qwen / part / "model.safetensors").write_bytes(content)
    if content == EMPTY and part == "text_encoder":
        assert f"no weights of {part}" in str(plan(qwen))
        return
    with pytest.raises(ModelNotFound, match=part):
        plan(qwen)


def test_an_index_with_an_endless_size_is_still_one(qwen: Path) -> None:
    named = {"decoder.conv.weight": "model.safetensors"}
    index = {"metadata": {"total_size": float("inf")}, "weight_map": named}
    file = qwen / "vae" / "model.safetensors.index.json"
    file.write_text(json.dumps(index))
    assert plan(qwen).layout().memory["vae"]


def test_the_patches_of_flux2_are_of_latents(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m")
    plain = plan(folder).layout().memory
    (folder / "vae/config.json").write_text(json.dumps({**VAE, "patch_size": [2, 2]}))
    assert plan(folder).layout().memory == plain


@pytest.mark.parametrize("part", ["vae", "text_encoder"])
def test_a_component_that_is_not_there_is_noted(qwen: Path, part: str) -> None:
    assert not plan(qwen).notes
    (qwen / part / "model.safetensors").unlink()
    found = plan(qwen)
    assert f"no weights of {part} lie in {qwen}, so their memory is not counted" in str(found)


def test_a_second_transformer_that_the_index_names_is_noted(tmp_path: Path) -> None:
    linears = bf16("blocks.0.attn1.to_q", 256, 256) | bf16("blocks.0.ffn.net.2", 256, 512)
    for part in ("transformer", "text_encoder", "vae"):
        save(tmp_path / part, linears, {"num_attention_heads": 2, **VAE})
    index = {"_class_name": "WanPipeline", "transformer_2": [None, None]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert not plan(tmp_path).notes
    index["transformer_2"] = ["diffusers", "WanTransformer3DModel"]
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert "no weights of transformer_2" in str(plan(tmp_path))


def test_sizes_beside_a_layout_are_not_dropped(qwen: Path) -> None:
    found = plan(qwen, gpus=4)
    two = Parallelism(tensor_parallel_size=2)
    both = found.layout(two, cfg_parallel_size=2)
    assert both.parallelism == two.but(cfg_parallel_size=2)
    assert found.layout(two).parallelism == two
    with pytest.raises(SpecError, match="give a Parallelism, or sizes by name"):
        found.layout({"tensor_parallel_size": 2})


def test_workers_are_not_called_gpus(qwen: Path) -> None:
    (reason, *_) = plan(qwen, device="cpu").layout(tensor_parallel_size=8).reasons
    assert "needs 8 workers and 2 are here" in reason


def test_what_is_cut_is_one_sentence(qwen: Path) -> None:
    reasons = plan(qwen, gpus=8).layout(tensor_parallel_size=5).reasons
    (cut,) = [one for one in reasons if "cannot share evenly" in one]
    assert cut == (
        "tensor_parallel_size=5: transformer.transformer_blocks.0.attn.to_q in BF16 has 3072 "
        "outputs, which 5 ranks cannot share evenly; so it is with 23 more linears: use a size "
        "that divides them all"
    )
    assert len(reasons) == 2
