"""Prompts, seeds and workloads as they may be written, and what is none of them."""

from functools import partial

import pandas as pd
import pytest

from workbench.errors import SpecError
from workbench.specs import LaunchSpec, ModelRef, PromptSet, Sampling, Workload

ONE = partial(Workload, "a", requests=1)


def test_keys_of_workloads_of_before_there_were_routes_hold():
    assert ONE().key == "033e2ee70ebe"
    assert len({ONE(route=route).key for route in (None, "images", "chat")}) == 3


def test_a_workload_survives_json():
    workload = ONE(seeds=range(2), route="chat")
    assert Workload(**workload.model_dump(mode="json")) == workload


@pytest.mark.parametrize(
    "prompts",
    [("a", "b"), map(str.lower, "AB"), {"a": 1, "b": 2}.keys(), pd.Series(["a", "b"])],
    ids=lambda prompts: type(prompts).__name__,
)
def test_prompts_are_whatever_can_be_gone_through(prompts):
    assert PromptSet(prompts).prompts == ("a", "b")


@pytest.mark.parametrize(
    ("make", "named"),
    [
        *((partial(PromptSet, odd), f"prompts={odd}.*be a list; a single") for odd in (3, None)),
        (partial(PromptSet, {"a": 1}), "prompts={'a': 1}.*be a list"),
        (partial(PromptSet, ["a", 3]), r"PromptSet\(prompts.1=3\): [^\n]*valid string"),
        (PromptSet, "prompts=.*at least 1"),
        (partial(Workload, {}, requests=1), "prompts=.*at least 1"),
        *((partial(ONE, seeds=odd), f"seeds={odd!r}.*be a list") for odd in (3, "12", None)),
        (partial(ONE, route="x"), "route='x'.*'chat'"),
        (partial(ONE, concurrency=float("inf")), "concurrency=inf.*finite"),
        (partial(ModelRef, None), "source=None.*valid string"),
        (partial(LaunchSpec, model={}), "source=''.*at least 1"),
        (partial(Sampling, guidance_scale=float("inf")), "guidance_scale=inf.*finite"),
    ],
)
def test_what_is_none_is_refused(make, named):
    with pytest.raises(SpecError, match=named):
        make()
