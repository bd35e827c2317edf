"""Which prompts at which seeds, and how many requests at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from workbench.sampling import Sampling
from workbench.spec import Spec

Route = Literal["images", "chat", "videos"]


class PromptSet(Spec):
    """The prompts of an experiment, in order, without duplicates."""

    prompts: tuple[str, ...] = Field(min_length=1)

    def __init__(self, prompts: Iterable[str] | str = (), **values: Any) -> None:
        super().__init__(prompts=(prompts,) if isinstance(prompts, str) else prompts, **values)

    @field_validator("prompts")
    @classmethod
    def _no_duplicates(cls, prompts: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({prompt for prompt in prompts if prompts.count(prompt) > 1})
        if twice:
            raise ValueError(f"the prompts {twice} occur twice; vary the seed instead")
        return prompts


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**63:
        raise ValueError(f"seeds must be distinct integers from 0 to 2**63-1, got {list(seeds)}")
    return seeds


Seeds = Annotated[tuple[int, ...], Field(min_length=1), AfterValidator(_distinct)]


def one_each(spec: Any) -> Any:
    """A spec as it is, unless its digests of images are not one a prompt.

    Raises:
        ValueError: another number of them.
    """
    images, prompts = spec.images, len(spec.prompts.prompts)
    if images is not None and len(images) != prompts:
        raise ValueError(f"{len(images)} digests of images for {prompts} prompts; give one each")
    return spec


class Workload(Spec):
    """What a server is put under: a closed loop with a fixed number of requests in flight."""

    younger: ClassVar[frozenset[str]] = frozenset({"images", "route"})
    prompts: PromptSet
    seeds: Seeds = (0,)
    sampling: Sampling = Sampling()
    concurrency: int = Field(1, ge=1)
    """Requests in flight; the next is sent when one is answered."""
    requests: int = Field(ge=1)
    """All of them; prompts and seeds are taken in turn, and again from the first."""
    images: tuple[str, ...] | None = None
    """As of a GenerateSpec; filled in by ``load`` and ``benchmark`` from their ``images=``."""
    route: Route | None = None
    """Which of its routes a server is asked by: ``"images"`` is ``/v1/images/generations``,
    ``"chat"`` ``/v1/chat/completions`` (on CPU only), ``"videos"`` ``/v1/videos/sync``. None takes
    the first or the last, by the model; an engine in this process has none."""
    _an_image_a_prompt = model_validator(mode="after")(one_each)

    @field_validator("images", mode="before")
    @classmethod
    def _digests_alone(cls, value: Any) -> Any:
        several = value if isinstance(value, list | tuple) else [value]
        if value is None or all(re.fullmatch("[0-9a-f]{64}", str(one)) for one in several):
            return value
        raise ValueError("digests alone; give the images to load or benchmark, as images=...")

    def __init__(self, prompts: PromptSet | Iterable[str] | str = (), **values: Any) -> None:
        whole = isinstance(prompts, PromptSet | dict)
        super().__init__(prompts=prompts if whole else PromptSet(prompts), **values)
