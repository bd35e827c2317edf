"""The only module that imports AutoRound. https://github.com/intel/auto-round, release 0.16.1."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import QuantizationFailed
from workbench.quant.autoround_config import mend_config
from workbench.quant.isolation import forwarded, isolated
from workbench.quant.plan import Plan
from workbench.recipes import Calibration, QuantRecipe
from workbench.torchvision_ops import define_missing
from workbench.zoo.models import default_sampling

LOG = logging.getLogger(__name__)
_KEEP = {"bits": 16, "data_type": "float"}


class Prompts:
    """The user's prompts as AutoRound takes them, one a batch; counts what it took.

    Its own reader takes a file name, drops the blanks in it, and splits prompts at tabs.
    """

    def __init__(self, prompts: tuple[str, ...]) -> None:
        """Hold the prompts; nothing is taken yet."""
        self.prompts = prompts
        self.taken = 0

    def __iter__(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yield (ids, prompts) of one prompt each."""
        for index, prompt in enumerate(self.prompts):
            self.taken += 1
            yield [index], [prompt]


def run(source: Path, output: Path, *, recipe: QuantRecipe, plan: Plan, trust: bool) -> Plan:
    """Quantize every transformer of a pipeline and let AutoRound write its result.

    Args:
        source: Pipeline in diffusers layout.
        output: Where AutoRound writes one folder a component.
        recipe: Round to nearest with ``iters=0``, else SignRound on the calibration prompts.
        plan: Which linears to pack and which to keep.
        trust: Run code that the model folder brings along.

    Returns:
        What was quantized in the end.

    Raises:
        QuantizationFailed: AutoRound raised, or left prompts out.
    """
    define_missing()
    import auto_round  # noqa: F401  installs its log handler, which is then replaced

    with isolated(), forwarded("autoround", LOG), forwarded("diffusers", LOG):
        warnings.simplefilter("ignore")  # deprecations between AutoRound, diffusers and torch
        prompts = Prompts(recipe.calibration.prompts if recipe.calibration else ())
        try:
            with cures():
                _run(source, output, _arguments(source, recipe, plan, prompts), trust)
        except (Exception, SystemExit) as error:  # it leaves by sys.exit where it finds no data
            raise QuantizationFailed(
                f"AutoRound could not quantize {source.name} ({type(error).__name__}: {error}), "
                f"after starting {prompts.taken} calibration prompts; the logger {LOG.name!r} "
                "has its log"
            ) from error
    expected = len(prompts.prompts) * len(plan.quantized)
    if prompts.taken != expected:
        raise QuantizationFailed(
            f"AutoRound ran {prompts.taken} of {expected} calibration prompts; "
            f"the logger {LOG.name!r} has its log"
        )
    for component, kept in plan.kept.items():
        mend_config(output / component / "config.json", plan.preset, tuple(kept))
    return plan


def _run(source: Path, output: Path, arguments: dict[str, Any], trust: bool) -> None:
    from auto_round import AutoRound

    tuner = AutoRound(
        str(source),
        scheme="W4A16",
        # Block by block from the shards; with a one-file component that mode finds no weights.
        low_cpu_mem_usage=any((source / "transformer").glob("*.index.json")),
        enable_torch_compile=False,  # minutes on a CPU, and different numbers from host to host
        batch_size=1,
        trust_remote_code=trust,
        **arguments,
    )
    tuner.quantize_and_save(output_dir=str(output), format="auto_round")


def _arguments(source: Path, recipe: QuantRecipe, plan: Plan, prompts: Prompts) -> dict[str, Any]:
    kept = {name for names in plan.kept.values() for name in names}
    common = {
        "iters": recipe.iters,
        "group_size": recipe.block,
        "sym": recipe.symmetric,
        "layer_config": {name: dict(_KEEP) for name in sorted(kept)} or None,
    }
    if recipe.calibration is None:
        # Else AutoRound takes its "model-free" way, which packs layers outside the blocks as well.
        return {**common, "disable_opt_rtn": True, "disable_model_free": True}
    calibration = recipe.calibration
    scale = calibration.guidance_scale if plan.family.guidance == "guidance_scale" else None
    return {
        **common,
        "dataset": prompts,
        "nsamples": len(prompts.prompts),
        "calib_num_inference_steps": calibration.num_inference_steps,
        "guidance_scale": scale,
        "seed": calibration.seed,
        "generator_seed": calibration.seed,
        "pipeline_call_kwargs": call_arguments(source, calibration, plan.family.guidance),
    }


def call_arguments(source: Path, calibration: Calibration, guidance: str) -> dict[str, Any]:
    """Arguments of the calibration runs: the size that is served, no decoding.

    Args:
        source: Pipeline whose default sampling fills in what the calibration leaves open.
        calibration: The recipe's.
        guidance: Pipeline argument that scales classifier-free guidance.
    """
    served = default_sampling(source)
    arguments = {name: served[name] for name in ("negative_prompt", "num_frames") if name in served}
    arguments["height"] = calibration.height or served["height"]
    arguments["width"] = calibration.width or served["width"]
    if guidance != "guidance_scale":  # AutoRound passes that one itself
        arguments[guidance] = calibration.guidance_scale
    return {**arguments, "output_type": "latent"}


@contextmanager
def cures() -> Iterator[None]:
    """Let AutoRound 0.16.1 tune Qwen-Image, and undo it after.

    It does not know that a QwenImageTransformerBlock returns (text, image), and feeds the text to
    the next block as image. It also casts cached block inputs to bfloat16, the complex rotary
    embedding included, which drops the imaginary part.
    """
    from auto_round.algorithms import block_runner
    from auto_round.calibration import inputs

    outputs, block = block_runner._DIFFUSION_OUTPUT_REGISTRY, "QwenImageTransformerBlock"
    known, cast = block in outputs, inputs.to_dtype
    outputs.setdefault(block, ["encoder_hidden_states", "hidden_states"])
    inputs.to_dtype = _leaving_complex(cast)
    try:
        yield
    finally:
        inputs.to_dtype = cast
        if not known:
            del outputs[block]


def _leaving_complex(cast: Callable[..., Any]) -> Callable[..., Any]:
    from torch import Tensor

    def to_dtype(value: Any, dtype: Any) -> Any:
        if isinstance(value, Tensor) and value.is_complex():
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(to_dtype(item, dtype) for item in value)
        return cast(value, dtype)

    return to_dtype
