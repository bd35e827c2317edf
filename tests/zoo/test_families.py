"""Which family a folder belongs to."""

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import workbench
from workbench.errors import ModelNotFound
from workbench.specs import Sampling
from workbench.zoo.families import FAMILIES, family_of, image_input_of, sampling_of
from workbench.zoo.models import default_sampling


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
    ("index", "takes", "fps"),
    [
        ({"_class_name": "WanPipeline"}, "none", 16),
        ({"_class_name": "WanPipeline", "expand_timesteps": True}, "optional", 24),
        ({"_class_name": "WanImageToVideoPipeline"}, "needed", 16),
        ({"_class_name": "FluxPipeline", "expand_timesteps": True}, "none", None),
    ],
)
def test_who_draws_from_a_first_frame_and_how_fast(
    tmp_path: Path, index: dict, takes: str, fps: float | None
) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert image_input_of(tmp_path) == takes
    assert default_sampling(tmp_path).get("fps") == sampling_of(tmp_path).get("fps") == fps


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


def tables() -> Iterator[tuple[str, set[str]]]:
    """Where the workbench has a table whose keys are names of families, and which it names."""
    names = {family.name for family in FAMILIES}
    root = Path(workbench.__file__).parent
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Dict) and len(node.keys) > 1:
                keys = {getattr(key, "value", None) for key in node.keys}
                if keys <= names:
                    yield f"{file.relative_to(root)}:{node.lineno}", keys


def test_no_table_of_families_leaves_a_wan_out() -> None:
    wan = {family.name for family in FAMILIES if family.name.startswith("wan")}
    found = dict(tables())
    assert len(found) > 2
    assert {place: wan - keys for place, keys in found.items() if keys & wan and wan - keys} == {}


def test_both_wan_pipelines_have_one_transformer_and_one_text_encoder() -> None:
    first, *others = (family for family in FAMILIES if family.name.startswith("wan"))
    apart = {name: getattr(first, name) for name in ("name", "pipelines", "image_input")}
    assert [replace(other, **apart) for other in others] == [first]
