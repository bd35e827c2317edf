"""How to quantize a model offline, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from workbench.calibrations import Calibration
from workbench.schemes import INTEGER, MIXED, SCHEMES
from workbench.spec import Spec

Method = Literal["auto-round", "modelopt"]
SchemeName = Literal[
    "W4A16", "W8A16", "MXFP8", "MXFP4", "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MIXED"
]
WRITES: dict[str, tuple[str, ...]] = {
    "auto-round": ("W4A16", "W8A16", "MXFP8", "MXFP4", MIXED),
    "modelopt": ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MXFP8", MIXED),
}
"""Schemes of each quantizer; MIXED is W4A16 with W8A16, or NVFP4 with FP8."""
MIXES = {"auto-round": ("W4A16", "W8A16"), "modelopt": ("NVFP4", "FP8")}
"""What MIXED mixes: the small scheme and the one for sensitive layers."""
KEEP = "BF16"
_CALIBRATED = ("FP8", "NVFP4", MIXED)


class QuantRecipe(Spec):
    """How to quantize a model offline.

    With ``method="auto-round"``, ``iters=0`` rounds to nearest (RTN), searching each scale on
    calibration data unless ``disable_opt_rtn``; ``iters>0`` tunes the rounding by SignRound
    (https://arxiv.org/abs/2309.05516). ``method="modelopt"`` takes the largest absolute value.
    """

    method: Method
    scheme: SchemeName
    iters: int = Field(0, ge=0)
    disable_opt_rtn: bool = True
    """AutoRound's option: False searches the scales of round to nearest on calibration data."""
    lr: float | None = Field(None, gt=0)
    """Step of the tuning; None is AutoRound's 1/iters."""
    gradient_accumulate_steps: int = Field(1, ge=1)
    """AutoRound's option: calibration samples that each step of the tuning averages over."""
    group_size: Literal[32, 64, 128] | None = None
    """Input channels that share one scale, in W4A16 and W8A16; None is 128."""
    symmetric: bool = True
    """Zero point in the middle; False is refused, as vLLM 0.30 has no kernel for it."""
    ignore: tuple[str, ...] = ()
    """Parts of module names that stay in 16 bit, besides those of the family's preset."""
    layer_schemes: tuple[tuple[str, str], ...] = ()
    """(part of a module name, scheme or BF16): rules for MIXED, the last match wins."""
    effective_bits: float | None = Field(None, gt=4, lt=16)
    """MIXED without rules: stored bits a quantized weight; sensitivity decides who gets more."""
    all_linears: bool = False
    """Also store in FP8 what vLLM-Omni runs in 16 bit: smaller files, the same memory."""
    calibration: Calibration | None = None

    @field_validator("layer_schemes", mode="before")
    @classmethod
    def _rules_may_be_a_mapping(cls, rules: Any) -> Any:
        return tuple(rules.items()) if isinstance(rules, Mapping) else rules

    @field_validator("layer_schemes")
    @classmethod
    def _rules_name_schemes(cls, rules: tuple[tuple[str, str], ...]) -> Iterable[Any]:
        for pattern, scheme in rules:
            if scheme not in (*SCHEMES, KEEP):
                raise ValueError(
                    f"layer_schemes gives {pattern!r} the unknown scheme {scheme!r}; "
                    f"there are {', '.join((*SCHEMES, KEEP))}"
                )
        return rules

    @model_validator(mode="after")
    def _fits_the_method(self) -> QuantRecipe:
        for check in (_scheme, _tuning, _options, _mixing, _calibration):
            if problem := check(self):
                raise ValueError(problem)
        return self

    @property
    def block(self) -> int:
        """Input channels that share one scale; 0 where a whole row or weight does."""
        if self.scheme in INTEGER or (self.scheme == MIXED and self.method == "auto-round"):
            return self.group_size or 128
        return SCHEMES[MIXES[self.method][0] if self.scheme == MIXED else self.scheme].block

    @property
    def needs_data(self) -> bool:
        """Whether AutoRound itself runs the calibration prompts."""
        return self.method == "auto-round" and (self.iters > 0 or not self.disable_opt_rtn)

    @property
    def label(self) -> str:
        """Name for tables: W4A16, W4A16 g64 tuned, ModelOpt FP8, FP8+NVFP4 5.5 bits, ..."""
        if self.scheme == MIXED:
            name = "+".join(reversed(MIXES[self.method]))
        else:
            name = SCHEMES[self.scheme].label
        if self.all_linears:
            name += "-all"
        if self.effective_bits is not None:
            name += f" {self.effective_bits:g} bits"
        if self.group_size not in (None, 128):
            name += f" g{self.group_size}"
        if self.iters:
            return f"{name} tuned"
        return name if self.disable_opt_rtn else f"{name} opt-RTN"

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes that its layers may have."""
        if self.scheme != MIXED:
            return (self.scheme,)
        named = [scheme for _, scheme in self.layer_schemes if scheme != KEEP]
        return tuple(dict.fromkeys((*MIXES[self.method], *named)))


def _scheme(recipe: QuantRecipe) -> str | None:
    if recipe.scheme not in WRITES[recipe.method]:
        return (
            f"{recipe.method} does not write {recipe.scheme} for vLLM-Omni; "
            f"it writes {', '.join(WRITES[recipe.method])}"
        )
    foreign = [s for _, s in recipe.layer_schemes if s not in (*WRITES[recipe.method], KEEP)]
    if foreign:
        return f"{recipe.method} writes no {foreign[0]}; it writes {WRITES[recipe.method]}"
    return None


def _tuning(recipe: QuantRecipe) -> str | None:
    steps = recipe.gradient_accumulate_steps
    asked = recipe.iters or recipe.lr or steps > 1 or not recipe.disable_opt_rtn
    if recipe.method == "modelopt" and asked:
        return (
            "iters, lr, gradient_accumulate_steps and disable_opt_rtn are options of auto-round; "
            "modelopt has none of them"
        )
    if recipe.lr and not recipe.iters:
        return f"lr={recipe.lr} is the step of a tuning; set iters above 0"
    if steps > 1 and not recipe.iters:
        return f"gradient_accumulate_steps={steps} is of a tuning; set iters above 0"
    return None


def _options(recipe: QuantRecipe) -> str | None:
    if recipe.group_size and recipe.block not in (0, recipe.group_size):
        return (
            f"group_size={recipe.group_size}: {recipe.scheme} shares a scale among "
            f"{recipe.block} channels by its definition; leave group_size out"
        )
    if recipe.group_size and not recipe.block:
        return f"{recipe.scheme} has no groups; leave group_size={recipe.group_size} out"
    if recipe.ignore and (recipe.method, recipe.scheme) == ("auto-round", "MXFP8"):
        return (
            f"ignore={list(recipe.ignore)}: vLLM-Omni 0.30 builds every linear of the blocks in "
            "AutoRound's MXFP8, whatever its config keeps (vllm_omni/quantization/inc_config.py); "
            "leave ignore out, or take another scheme"
        )
    if recipe.all_linears and not recipe.scheme.startswith("FP8"):
        return "all_linears stores FP8 where the engine runs 16 bit; it goes with an FP8 scheme"
    return None


def _mixing(recipe: QuantRecipe) -> str | None:
    rules, bits = recipe.layer_schemes, recipe.effective_bits
    if recipe.scheme != MIXED:
        return f"{'layer_schemes' if rules else 'effective_bits'} needs scheme='MIXED'" * bool(
            rules or bits
        )
    if bool(rules) == (bits is not None):
        return (
            "MIXED takes either layer_schemes, rules of yours, or effective_bits, by which a "
            f"measured sensitivity chooses; got {dict(rules)} and effective_bits={bits}"
        )
    small, large = (SCHEMES[name] for name in MIXES[recipe.method])
    if bits is not None and not small.bits <= bits <= large.bits:
        return (
            f"effective_bits={bits}: {small.name} with {large.name} gives {small.bits} to "
            f"{large.bits} bits a weight"
        )
    return None


def _calibration(recipe: QuantRecipe) -> str | None:
    why = {
        f"iters={recipe.iters} tunes on them": recipe.iters > 0,
        "its scales are searched": not recipe.disable_opt_rtn,
        "its input scales are calibrated": recipe.method == "modelopt"
        and recipe.scheme in _CALIBRATED,
        "sensitivity is measured": recipe.effective_bits is not None,
    }
    reasons = [reason for reason, holds in why.items() if holds]
    if reasons and recipe.calibration is None:
        return (
            f"{recipe.label} needs prompts: {reasons[0]}; pass "
            "calibration=Calibration(prompts=[...])"
            + ("" if recipe.method == "modelopt" else ", or iters=0 for round to nearest")
        )
    if not reasons and recipe.calibration is not None:
        return f"{recipe.label} reads no calibration; drop it, or set iters>0 or disable_opt_rtn"
    return None
