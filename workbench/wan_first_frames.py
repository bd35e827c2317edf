"""A TI2V pipeline of diffusers as it draws from a first frame: the same parts, another class."""

from __future__ import annotations

from typing import Any


def image_to_video(pipeline: Any) -> Any:
    """The pipeline that takes ``image=``, of the same components; one that does is returned.

    Args:
        pipeline: A ``WanPipeline`` with ``expand_timesteps``, or a ``WanImageToVideoPipeline``.
    """
    from diffusers import WanImageToVideoPipeline

    if isinstance(pipeline, WanImageToVideoPipeline):
        return pipeline
    own = pipeline.config
    other = WanImageToVideoPipeline(
        **pipeline.components,
        boundary_ratio=own.boundary_ratio,
        expand_timesteps=own.expand_timesteps,
    )
    other.set_progress_bar_config(disable=True)
    return other
