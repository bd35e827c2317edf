"""What is said of each family's layouts is in the installed engine, at the line that is named."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from workbench.errors import SpecError
from workbench.specs import Sampling
from workbench.zoo.families import FAMILIES
from workbench.zoo.parallel import SUPPORT, support_of

SITE = Path(find_spec("vllm_omni").origin).parents[1]
LINE = re.compile(r"(vllm_omni/\S+\.py):(\d+)")
SAYS = {
    "sequence_source": ("SequenceParallelInput", "applied_count == 0"),
    "guidance_source": ("cfg", "classifier_free_guidance"),
    "also_divided_source": ("final_out_dims",),
    "only_one_tensor_rank": ("torch.nn.Linear",),
}


@pytest.mark.parametrize("support", SUPPORT, ids=lambda support: support.family)
def test_the_lines_say_so(support) -> None:
    for field, words in SAYS.items():
        for file, number in LINE.findall(getattr(support, field)):
            line = (SITE / file).read_text().splitlines()[int(number) - 1]
            assert any(word in line for word in words), f"{file}:{number} {line}"


def test_z_image_has_no_cfg_parallel_in_the_engine() -> None:
    (support,) = (one for one in SUPPORT if not one.guidance)
    text = (SITE / support.guidance_source).read_text()
    assert "CFGParallelMixin" not in text
    assert "get_classifier_free_guidance_world_size" not in text


def test_every_diffusers_family_is_known_and_no_other() -> None:
    wanted = {family.name for family in FAMILIES if family.pipelines}
    assert {support.family for support in SUPPORT} == wanted
    assert {support.guidance for support in SUPPORT} <= {"", *Sampling.model_fields}
    with pytest.raises(SpecError, match=r"layouts of 'bagel'; there are qwen-image"):
        support_of("bagel")
