"""Prompts of diffusers' Wan image-to-video pipeline, where ftfy is not installed.

diffusers 0.40.0 calls ftfy there unasked (pipelines/wan/pipeline_wan_i2v.py:97); its text-to-video
pipeline asks first (pipeline_wan.py:79), and vLLM-Omni cleans without it.
"""

from __future__ import annotations


def clean_alike() -> None:
    """From now on both pipelines clean a prompt alike; inert where ftfy is there."""
    from diffusers.pipelines.wan import pipeline_wan, pipeline_wan_i2v

    if not hasattr(pipeline_wan_i2v, "ftfy"):
        pipeline_wan_i2v.basic_clean = pipeline_wan.basic_clean
