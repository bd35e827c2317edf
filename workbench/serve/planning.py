"""Which layouts of a model an engine would run, and how much memory each needs, before a launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from workbench import zoo
from workbench.errors import SpecError
from workbench.records import Checkpoint
from workbench.serve.defaults import full_sampling
from workbench.serve.expected import components, quantization_config
from workbench.serve.plan_facts import Facts, facts_of
from workbench.serve.plan_layouts import Layouts
from workbench.serve.plan_memory import GIB, weights_of
from workbench.serve.plan_result import Plan, size_of
from workbench.serve.plan_rules import steps_problem
from workbench.serve.stored import stored_label
from workbench.spec import Spec
from workbench.specs import LaunchSpec, ModelRef, Sampling
from workbench.zoo.families import Family, family_of
from workbench.zoo.json_files import read_json
from workbench.zoo.sizes import drawable, second_problem

MOST_GPUS = 64
MOST_GIB = 100_000  # a hundred times the largest GPU there is
MOST_SEQS = 100_000


class PlanSpec(Spec):
    """The devices that a plan is for."""

    gpus: int = Field(ge=1, le=MOST_GPUS)
    gpu_memory_gib: float = Field(gt=0, le=MOST_GIB, allow_inf_nan=False)
    device: Literal["cuda", "cpu"] = "cuda"
    max_num_seqs: int = Field(1, ge=1, le=MOST_SEQS)

    @field_validator("gpus", "max_num_seqs", mode="before")
    @classmethod
    def _whole_number(cls, value: Any) -> Any:
        """Digits, as a command line passes them, count as the number; True does not."""
        if isinstance(value, bool):
            raise ValueError("give a whole number, 1 or more")
        return int(value) if isinstance(value, str) and value.strip().isdecimal() else value

    @field_validator("gpu_memory_gib", mode="before")
    @classmethod
    def _a_number(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("give the GiB of one GPU, such as 80")
        return value


def plan(
    model: ModelRef | Checkpoint | str,
    *,
    gpus: int,
    gpu_memory_gib: float,
    sampling: Sampling | None = None,
    quantization: str | None = None,
    dtype: str = "bfloat16",
    device: str = "cuda",
    max_num_seqs: int = 1,
    step_execution: bool = False,
) -> Plan:
    """Every layout of a model on some devices: which are valid, why others are not, what fits.

    Reads config.json and safetensors headers only, and nothing of this machine; of a hub id nothing
    more is downloaded, and what the hub's cache holds is used. Memory is an estimate;
    :mod:`workbench.serve.plan_memory` has its formulas and says what they were held against.

    Args:
        model: What :func:`workbench.launch` takes: a ModelRef, its source, or a Checkpoint.
        gpus: Devices that there would be, 1 to 64.
        gpu_memory_gib: Memory of one, in GiB (2**30 bytes).
        sampling: Size and guidance of what is drawn; None takes the model's defaults.
        quantization: ``fp8`` or ``int8``, online.
        dtype: ``bfloat16``, ``float16`` or ``float32``.
        device: ``cpu`` plans worker processes instead of GPUs: no ring attention, no context.
        max_num_seqs: Pictures drawn and decoded together.
        step_execution: Whether the engine schedules single steps: it then decodes one by one what
            it denoises together.

    Raises:
        SpecError: devices, options or a sampling that nothing can serve.
        ModelNotFound: the model leads to no pipeline, or to one with broken files.

    >>> import workbench as wb
    >>> plan = wb.plan("embedded:qwen-image", gpus=2, gpu_memory_gib=80)
    >>> plan.smallest().parallelism.world_size
    1
    """
    asked = PlanSpec(
        gpus=gpus, gpu_memory_gib=gpu_memory_gib, device=device, max_num_seqs=max_num_seqs
    )
    options = {"quantization": quantization, "dtype": dtype, "step_execution": step_execution}
    with _located(model, options) as (spec, folder):
        return _planned(asked, spec, folder, sampling)


@contextmanager
def _located(
    model: ModelRef | Checkpoint | str, options: dict[str, Any]
) -> Iterator[tuple[LaunchSpec, Path]]:
    """As for a launch, but without the fingerprint, which reads a part of the weights."""
    if isinstance(model, Checkpoint):
        yield LaunchSpec(model=model.model, recipe=model.recipe, **options), model.path
        return
    reference = model if isinstance(model, ModelRef) else ModelRef(model)
    spec = LaunchSpec(model=reference, **options)
    with zoo.outlined(reference) as folder:
        yield spec, folder


def _planned(asked: PlanSpec, spec: LaunchSpec, folder: Path, sampling: Sampling | None) -> Plan:
    family = family_of(folder)
    if problem := steps_problem(family, spec):
        raise SpecError(problem)
    _refuse_quantized_twice(spec, family, folder)
    wanted = full_sampling(folder, sampling)
    facts = facts_of(spec, family, folder)
    drawn, note = drawable(folder, family, wanted)
    if problem := second_problem(folder, family, drawn):
        raise SpecError(problem)
    layouts = Layouts(
        facts,
        drawn,
        gpus=asked.gpus,
        capacity=int(asked.gpu_memory_gib * GIB),
        on_cpu=asked.device == "cpu",
        batch=asked.max_num_seqs,
        stepped=spec.step_execution,
    )
    notes = (note, _lacking(folder, facts), *_notes(facts, spec))
    title = _title(spec, facts, asked, drawn)
    return Plan(layouts, title=title, notes=tuple(filter(None, notes)))


def _refuse_quantized_twice(spec: LaunchSpec, family: Family, folder: Path) -> None:
    names = components(folder, family) if spec.quantization else ()
    if any(quantization_config(folder / name) for name in names):
        spec.but(stored=stored_label(folder))  # says why


def _title(spec: LaunchSpec, facts: Facts, asked: PlanSpec, sampling: Sampling) -> str:
    packed = sorted({p.scheme for p in facts.parts} - {"BF16", "F16", "F32"})
    precision = spec.recipe.label if spec.recipe else "+".join(packed) or spec.precision
    devices = f"{asked.gpus} {'GPU' if asked.device == 'cuda' else 'worker'}"
    return (
        f"{spec.model.source} in {precision}, {size_of(sampling)}, on up to {devices}"
        f"{'s' * (asked.gpus > 1)} of {asked.gpu_memory_gib:g} GiB"
    )


def _lacking(folder: Path, facts: Facts) -> str | None:
    """Components that the engine loads and the plan could not count."""
    index = folder / "model_index.json"
    named = read_json(index) if index.is_file() else {}
    given = {
        name for name, value in named.items() if isinstance(value, list) and value[:1] != [None]
    }
    sizes = weights_of(facts, 1)
    lacking = [
        one.name
        for one in facts.preset.components
        if not sizes.get(one.name)
        and (one.name in given or not (one.optional or one.name in named))
    ]
    if not named or not lacking:
        return None
    return (
        f"no weights of {', '.join(lacking)} lie in {folder}, so their memory is not counted: more "
        "is needed than this plan says; plan the whole pipeline"
    )


def _notes(facts: Facts, spec: LaunchSpec) -> tuple[str, ...]:
    ignored = facts.preset.ignored if spec.quantization else ""
    served = facts.family.not_served
    return ignored, served and f"workbench.launch refuses {facts.family.name}: {served}"
