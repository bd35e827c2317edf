"""What is asked for, as frozen values. A spec's key names the folder of what it produces."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from workbench.recipes import QuantRecipe
from workbench.sampling import Sampling
from workbench.spec import Spec
from workbench.workloads import PromptSet, Route, Seeds, Workload, one_each

OnlineQuantization = Literal["fp8", "int8"]
__all__ = [
    "GenerateSpec",
    "LaunchSpec",
    "ModelRef",
    "Parallelism",
    "PromptSet",
    "QuantizeSpec",
    "Route",
    "Sampling",
    "Workload",
]
Runtime = Literal["vllm-omni", "diffusers", "vllm-omni-server"]
AttentionBackend = Literal["TORCH_SDPA", "FLASH_ATTN", "CUDNN_ATTN", "FLASHINFER_ATTN", "SAGE_ATTN"]


class ModelRef(Spec):
    """A model: ``embedded:NAME``, a hub id, or a local diffusers folder."""

    source: str = Field(min_length=1)
    """``embedded:qwen-image``, ``Qwen/Qwen-Image`` or ``/models/qwen-image``."""
    revision: str | None = None
    """Hub commit, tag or branch; for a folder the fingerprint of its content, filled in on use."""
    trust_remote_code: bool = False
    """Run code that the model folder brings along."""

    def __init__(self, source: Any = "", **values: Any) -> None:
        super().__init__(
            source=os.fspath(source) if isinstance(source, os.PathLike) else source, **values
        )


class QuantizeSpec(Spec):
    """A model and how to quantize it: what a checkpoint folder is keyed by."""

    model: ModelRef
    recipe: QuantRecipe


class Parallelism(Spec):
    """How the work is split over devices; names are vLLM's and vLLM-Omni's."""

    tensor_parallel_size: int = Field(1, ge=1)
    cfg_parallel_size: Literal[1, 2] = 1
    """2 runs the positive and the negative branch of classifier-free guidance side by side."""
    ulysses_degree: int = Field(1, ge=1)
    ring_degree: int = Field(1, ge=1)
    vae_patch_parallel_size: int = Field(1, ge=1)

    @field_validator("*", mode="before")
    @classmethod
    def _whole_number(cls, value: Any) -> Any:
        """Digits, as a command line passes them, count as the number; True does not."""
        if isinstance(value, bool):
            raise ValueError("give a whole number, 1 or more")
        return int(value) if isinstance(value, str) and value.strip().isdecimal() else value

    @property
    def world_size(self) -> int:
        """Number of devices, or of worker processes on CPU."""
        return (
            self.tensor_parallel_size
            * self.cfg_parallel_size
            * self.ulysses_degree
            * self.ring_degree
        )


class LaunchSpec(Spec):
    """One way of running one model in vLLM-Omni."""

    younger: ClassVar[frozenset[str]] = frozenset(
        {"extra_flags", "isolation", "request_batch_max_wait_ms", "runtime"}
    )
    model: ModelRef
    runtime: Runtime = "vllm-omni"
    """``diffusers`` runs the plain pipeline, the oracle: 16 bit, one device, no options;
    ``vllm-omni-server`` asks ``vllm serve`` over HTTP."""
    recipe: QuantRecipe | None = None
    """Recipe of the checkpoint that is served; None serves the model itself."""
    quantization: OnlineQuantization | None = None
    """Online quantization of a 16-bit model while it loads."""
    stored: str | None = None
    """What a folder that is quantized already holds by its own metadata; filled in on launch."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    parallelism: Parallelism = Parallelism()
    attention_backend: AttentionBackend | None = None
    """None takes the platform's default; the audit records which that was."""
    step_execution: bool = False
    """Schedule single denoising steps instead of whole requests."""
    max_num_seqs: int = Field(1, ge=1)
    """Pictures drawn together."""
    request_batch_max_wait_ms: float = Field(0.0, ge=0)
    """How long a free engine waits for more of them, at most: it starts when none has come for a
    fifth of this, or for 50 ms. At 0 the first that arrives is drawn alone."""
    enforce_eager: bool = True
    """False compiles the transformer blocks."""
    isolation: Literal["inline", "process"] = "inline"
    """``process`` runs a single worker in a process of its own, as several workers always do: what
    it held goes back when it ends, and its death leaves this process alive."""
    extra_flags: tuple[str, ...] = ()
    """More flags of ``vllm serve``, of a server alone."""

    @model_validator(mode="after")
    def _one_quantization(self) -> LaunchSpec:
        already = self.recipe.label if self.recipe is not None else self.stored
        if already and self.quantization is not None:
            raise ValueError(
                f"quantization={self.quantization!r} quantizes a 16-bit model while it loads, "
                f"but this checkpoint is {already} already; "
                "drop quantization, or launch the model itself"
            )
        return self

    @model_validator(mode="after")
    def _plain_diffusers_takes_no_options(self) -> LaunchSpec:
        if self.runtime != "diffusers":
            return self
        allowed = {"model", "runtime", "dtype"}
        given = [
            f"{name}={getattr(self, name)!r}"
            for name, field in type(self).model_fields.items()
            if name not in allowed and getattr(self, name) != field.default
        ]
        if given:
            raise ValueError(
                f"runtime='diffusers' is the plain 16-bit pipeline on one device and ignores "
                f"{', '.join(given)}; leave that out, or launch with runtime='vllm-omni'"
            )
        return self

    @model_validator(mode="after")
    def _each_form_has_its_own(self) -> LaunchSpec:
        if self.extra_flags and self.runtime == "vllm-omni":
            raise ValueError(
                f"extra_flags={list(self.extra_flags)} are those of a server's command line; leave "
                "them out, or start the server form: workbench.serve(model, extra_flags=...)"
            )
        if self.isolation == "process" and self.runtime == "vllm-omni-server":
            raise ValueError(
                "isolation='process' is of a launch in this process; a server is always one of its "
                "own, so leave it out"
            )
        return self

    @property
    def precision(self) -> str:
        """Name for tables: BF16, FP8, INT8, W4A16, ..."""
        if self.recipe is not None:
            return self.recipe.label
        if self.stored is not None:
            return self.stored
        return (
            self.quantization
            or {"bfloat16": "BF16", "float16": "FP16", "float32": "FP32"}[self.dtype]
        ).upper()


class GenerateSpec(Spec):
    """A population: every prompt at every seed, on one engine."""

    younger: ClassVar[frozenset[str]] = frozenset({"route", "images"})
    launch: LaunchSpec
    prompts: PromptSet
    seeds: Seeds
    sampling: Sampling
    repeat: int = Field(0, ge=0)
    """Counts independent runs of the same request; a second one measures the noise floor."""
    route: Route | None = None
    """Which of its routes a server was asked by; None for what is no server."""
    images: tuple[str, ...] | None = None
    """SHA-256 of the first frame that each prompt begins with, of its RGB pixels at the size that
    is drawn; None for prompts alone."""
    _an_image_a_prompt = model_validator(mode="after")(one_each)
