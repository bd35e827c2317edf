"""AutoRound's own command lines, read into a model and a recipe with the same option names.

The literal lines write what vLLM-Omni 0.30.0 refuses (AutoRound 0.16.1 then packs layers outside
the blocks), download their data and calibrate at another size than the one served; the recipes
that come of them here do not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.errors import SpecError
from workbench.quant.command_line import NO_MEANING, option_names, parse
from workbench.quant.dataset import read_dataset
from workbench.recipes import WRITES, Calibration, QuantRecipe
from workbench.schemes import MIXED
from workbench.specs import ModelRef

LOG = logging.getLogger(__name__)
PRESETS: dict[str, dict[str, Any]] = {
    "FLUX.1-dev": {
        "model": "black-forest-labs/FLUX.1-dev",
        "scheme": "W4A16",
        "batch_size": 1,
        "disable_opt_rtn": True,
        "dataset": "coco2014",
        "iters": 0,
    },
    "Wan2.2-T2V-A14B": {
        "model": "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
        "format": "auto_round",
        "scheme": "W4A16",
        "iters": 100,
        "nsamples": 32,
        "batch_size": 1,
        "num_inference_steps": 3,
        "guidance_scale": 5.0,
        "dataset": "coco2014",
    },
    "Qwen3-Omni-30B-A3B-Instruct": {
        "model": "Qwen/Qwen3-Omni-30B-A3B-Instruct",
        "bits": 4,
        "group_size": 128,
        "format": "auto_round",
        "iters": 200,
        "lr": 5e-3,
        "trust_remote_code": True,
    },
}
"""The three command lines of https://blog.vllm.ai on AutoRound and vLLM-Omni, as options."""
FORMATS = ("auto_round", "auto_round:auto_gptq")
_DOWNLOADS = ("coco2014", "opens2v")
_TUNING_ITERS = 200  # AutoRound's default where a line names none


def recipe_from_command(
    line: str, *, dataset: str | Path | Sequence[str] | None = None, **size: Any
) -> tuple[ModelRef, QuantRecipe]:
    """Model and recipe of an ``auto-round`` command line.

    >>> import workbench as wb
    >>> line = "auto-round --model black-forest-labs/FLUX.1-dev --iters 0 --disable_opt_rtn"
    >>> model, recipe = wb.recipe_from_command(line)
    >>> recipe.label
    'W4A16'

    Args:
        line: The literal line, in one or, with backslashes, several lines.
        dataset: Your prompts, or a .tsv (id, caption) or .txt file of them; takes the place of
            ``--dataset``.
        size: ``height``, ``width``, ``num_frames`` and ``seed`` of the calibration, which the
            command line cannot set.

    Raises:
        SpecError: an option that AutoRound does not have, one that has no meaning here, a scheme
            or format that vLLM-Omni does not load, or data that would have to be downloaded.
    """
    options = parse(line)
    if dataset is not None:
        options["dataset"] = dataset
    model = ModelRef(
        options.pop("model"), trust_remote_code=bool(options.pop("trust_remote_code", False))
    )
    return model, from_options(**options, **size)


def preset(
    name: str, *, dataset: str | Path | Sequence[str] | None = None, **changes: Any
) -> tuple[ModelRef, QuantRecipe]:
    """Model and recipe of one of the :data:`PRESETS`, with some options changed.

    Args:
        name: A key of :data:`PRESETS`.
        dataset: Your prompts, in place of the data that the line downloads.
        changes: Options of the line, and ``height``, ``width``, ``num_frames``, ``seed``.

    Raises:
        SpecError: an unknown name, or as :func:`recipe_from_command`.
    """
    if name not in PRESETS:
        raise SpecError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    options = {**PRESETS[name], **({"dataset": dataset} if dataset is not None else {}), **changes}
    model = ModelRef(
        options.pop("model"), trust_remote_code=bool(options.pop("trust_remote_code", False))
    )
    return model, from_options(**options)


def from_options(**options: Any) -> QuantRecipe:
    """The recipe of AutoRound's options.

    Args:
        options: AutoRound's: scheme, or bits and group_size; iters, disable_opt_rtn, lr,
            gradient_accumulate_steps, nsamples, dataset (a file, or prompts), batch_size,
            num_inference_steps, guidance_scale, format, ignore_layers; and ours: height, width,
            num_frames, seed.

    Raises:
        SpecError: see :func:`recipe_from_command`.
    """
    for name in NO_MEANING:
        options.pop(name, None)
    _refuse(options)
    iters = options.get("iters", _TUNING_ITERS)
    rules = {
        "iters": iters,
        "disable_opt_rtn": bool(options.get("disable_opt_rtn", False)) or iters > 0,
        "lr": options.get("lr"),
        "gradient_accumulate_steps": options.get("gradient_accumulate_steps", 1),
        "group_size": options.get("group_size"),
        "symmetric": not options.get("asym", False),
        "ignore": _split(options.get("ignore_layers")),
    }
    needed = iters > 0 or not rules["disable_opt_rtn"]
    return QuantRecipe(
        method="auto-round",
        scheme=_scheme(options),
        calibration=_calibration(options) if needed else _unread(options),
        **rules,
    )


def _refuse(options: dict[str, Any]) -> None:
    known = option_names() | {"height", "width", "num_frames"}
    if unknown := sorted(set(options) - known):
        raise SpecError(f"no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    asked = options.get("format", FORMATS[0])
    if asked not in FORMATS:
        raise SpecError(
            f"format={asked!r}: vLLM-Omni 0.30 loads AutoRound's {' and '.join(FORMATS)} for "
            "diffusion models; leave the format out"
        )
    if options.get("batch_size", 1) != 1:
        raise SpecError(
            f"batch_size={options['batch_size']}: blocks of a diffusion transformer are tuned one "
            "sample at a time; use batch_size=1, and gradient_accumulate_steps to average over "
            "several samples"
        )


def _scheme(options: dict[str, Any]) -> str:
    bits = options.get("bits")
    scheme = str(options.get("scheme") or (f"W{bits}A16" if bits else "W4A16")).upper()
    if bits and scheme != f"W{bits}A16":
        raise SpecError(f"bits={bits} and scheme={scheme!r} differ; give one of them")
    allowed = [name for name in WRITES["auto-round"] if name != MIXED]
    if scheme not in allowed:
        raise SpecError(
            f"scheme={scheme!r} is not among what vLLM-Omni 0.30 loads from AutoRound for "
            f"diffusion models: {', '.join(allowed)}; FP8 and NVFP4 come from method='modelopt'"
        )
    return scheme


def _calibration(options: dict[str, Any]) -> Calibration:
    steps, guidance = options.get("num_inference_steps"), options.get("guidance_scale")
    given = {"num_inference_steps": steps, "guidance_scale": guidance, "seed": options.get("seed")}
    given |= {name: options.get(name) for name in ("height", "width", "num_frames")}
    set_values = {name: value for name, value in given.items() if value is not None}
    return Calibration(prompts=_prompts(options), **set_values)


def _prompts(options: dict[str, Any]) -> tuple[str, ...]:
    data, count = options.get("dataset"), options.get("nsamples")
    if data is None or data in _DOWNLOADS:
        raise SpecError(
            f"dataset={data!r} would be downloaded, and holds other prompts than yours; pass "
            "dataset='prompts.tsv' (columns id and caption), a .txt with one prompt a line, "
            "or a list of prompts"
        )
    if isinstance(data, (str, Path)):
        return read_dataset(data, count)
    prompts = tuple(data)
    if count is not None and count > len(prompts):
        raise SpecError(f"nsamples={count}, and dataset holds {len(prompts)} prompts; add some")
    return prompts[:count]


def _unread(options: dict[str, Any]) -> None:
    if options.get("dataset") is not None:
        LOG.info("round to nearest reads no data: dataset=%s is left out", options["dataset"])


def _split(layers: str | Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(layers, str):
        return tuple(part.strip() for part in layers.split(",") if part.strip())
    return tuple(layers or ())
