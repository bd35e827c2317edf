"""Prompts and first frames as AutoRound 0.16.1 takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workbench.wan_first_frames import image_to_video


class Prompts:
    """The user's prompts as AutoRound takes them, one a batch; counts what it took.

    Its own reader takes a file name, drops the blanks in it, and splits prompts at tabs.
    """

    def __init__(self, prompts: tuple[str, ...], images: Sequence[Any] = ()) -> None:
        """Hold the prompts, and the first frame of each or None; nothing is taken yet."""
        self.prompts, self.images = prompts, images or [None] * len(prompts)
        self.image: Any = None
        """First frame of the prompt that was taken last."""
        self.taken = 0

    def __iter__(self) -> Iterator[tuple[list[Any], ...]]:
        """Yield (ids, prompts) or (ids, prompts, images) of one prompt each."""
        for index, (prompt, image) in enumerate(zip(self.prompts, self.images, strict=True)):
            self.taken, self.image = self.taken + 1, image
            yield [index], [prompt], *([] if image is None else [[image]])


@contextmanager
def first_frames_drawn(prompts: Prompts) -> Iterator[None]:
    """Let AutoRound draw from the first frames of prompts where its pipeline takes none.

    It gives images to pipelines that cannot go without, and to no other (calibration/diffusion.py:
    115): a TI2V model would be calibrated from its prompts alone, and the images left out unsaid.

    Args:
        prompts: Read while AutoRound calibrates.
    """
    from auto_round.utils import model

    attach = model._attach_diffusion_pipeline_fn

    def attach_ours(pipeline: Any) -> None:
        attach(pipeline)
        pipeline._autoround_pipeline_fn = draw

    def draw(pipeline: Any, batch: list[str], **options: Any) -> Any:
        if prompts.image is None:
            return pipeline(batch, **options)
        return image_to_video(pipeline)(prompts.image, prompt=batch, **options)

    if any(image is not None for image in prompts.images):
        model._attach_diffusion_pipeline_fn = attach_ours
    try:
        yield
    finally:
        model._attach_diffusion_pipeline_fn = attach
