"""Which family a folder belongs to."""

import json
from pathlib import Path

import pytest

from workbench.errors import ModelNotFound
from workbench.specs import Sampling
from workbench.zoo.families import FAMILIES, family_of, image_input_of


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_folder_is_known_by_its_class(tmp_path: Path, family) -> None:
    for name in family.pipelines:
        (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
        assert family_of(tmp_path) is family
    (tmp_path / "model_index.json").unlink(missing_ok=True)
    for name in family.architectures:
        (tmp_path / "config.json").write_text(json.dumps({"architectures": [name]}))
        assert family_of(tmp_path) is family
    Sampling(**family.sampling)
    assert family.guidance in Sampling.model_fields


def test_no_class_is_in_two_families() -> None:
    names = [name for f in FAMILIES for name in (*f.pipelines, *f.architectures)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("index", "takes"),
    [
        ({"_class_name": "WanPipeline"}, "none"),
        ({"_class_name": "WanPipeline", "expand_timesteps": True}, "optional"),
        ({"_class_name": "WanImageToVideoPipeline"}, "needed"),
        ({"_class_name": "FluxPipeline", "expand_timesteps": True}, "none"),
    ],
)
def test_who_draws_from_a_first_frame(tmp_path: Path, index: dict, takes: str) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert image_input_of(tmp_path) == takes


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model_index.json", {"_class_name": "SanaPipeline"}, "is a SanaPipeline; .* knows Qwen"),
        ("config.json", {"architectures": ["LlamaForCausalLM"]}, "is a LlamaForCausalLM"),
        ("config.json", {}, "a model of no named class"),
        ("other.json", {}, "holds no model_index.json and no config.json"),
    ],
)
def test_unknown_ones_are_refused(tmp_path: Path, file: str, content: dict, message: str) -> None:
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(ModelNotFound, match=message):
        family_of(tmp_path)


def test_the_engine_knows_the_pipelines() -> None:
    from vllm_omni.diffusion.registry import _DIFFUSION_MODELS

    assert {name for family in FAMILIES for name in family.pipelines} <= set(_DIFFUSION_MODELS)
