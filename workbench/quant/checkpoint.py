"""Model and recipe -> checkpoint folder."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workbench import store, zoo
from workbench.errors import QuantizationFailed
from workbench.first_frames import warn_of_scaled
from workbench.quant.calls import begins, input_images
from workbench.quant.plan import Plan, make_plan
from workbench.quant.ranks import sizes_of
from workbench.recipes import QuantRecipe
from workbench.records import Checkpoint, LayerError
from workbench.specs import ModelRef, QuantizeSpec
from workbench.zoo.families import image_input_of
from workbench.zoo.models import INDEX
from workbench.zoo.weights import weight_bytes, weight_files

LOG = logging.getLogger(__name__)
KIND = "checkpoints"
_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx"}


def quantize(
    model: ModelRef | str,
    recipe: QuantRecipe,
    *,
    tensor_parallel_size: int = 1,
    force: bool = False,
) -> Checkpoint:
    """Quantize every transformer of a pipeline; the rest is copied byte for byte.

    The folder serves in vLLM-Omni as it lies, without a flag. The same request is answered from
    the run folder.

    Args:
        model: 16-bit pipeline, embedded, local or on the hub; a string is its source.
        recipe: What to do with it.
        tensor_parallel_size: Ranks that it must be able to run on; checked before the work.
        force: Make it again; the old checkpoint stays until the new one is whole.

    Raises:
        SpecError: the recipe does not fit the model, it is quantized already, or an image of the
            calibration cannot be used.
        ModelNotFound: no pipeline there, or of an unknown family.
        StoreError: the run folder is read-only or full.
        QuantizationFailed: the quantizer failed, or wrote something else than asked.
    """
    reference = zoo.pin(model if isinstance(model, ModelRef) else ModelRef(model))
    spec = QuantizeSpec(model=reference, recipe=recipe)
    if store.has(KIND, spec) and not force:
        return Checkpoint.load(store.open_complete(KIND, spec))
    source = zoo.locate(reference)
    plan = make_plan(source, recipe, tensor_parallel_size=tensor_parallel_size)
    images = _images(source, recipe)
    before = weight_bytes(source)
    folder = store.prepare(KIND, spec, needed_bytes=sum(before.values()))
    started = time.perf_counter()
    with _workplace(folder) as work:
        content = _make(source, work / "done", work / "raw", spec, plan)
        sizes = {"bytes_before": before, "bytes_after": weight_bytes(work / "done")}
        elapsed = {"elapsed_s": time.perf_counter() - started}
        store.commit(work / "done", spec, {**sizes, **content, **elapsed, **images})
        shutil.rmtree(folder)
        (work / "done").rename(folder)
    return Checkpoint.load(folder)


def _images(source: Path, recipe: QuantRecipe) -> dict[str, Any]:
    """What the manifest says of the first frames of a calibration; those scaled are said now."""
    if recipe.calibration is None or image_input_of(source) == "none":
        return {}
    found = input_images(source, recipe.calibration)
    warn_of_scaled(filter(None, found), stacklevel=4)
    note = begins(found)
    LOG.info("calibration of %s: %s", source.name, note)
    records = [one and one.record for one in found] if any(found) else []
    return {"calibration_note": note, **({"calibration_images": records} if records else {})}


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A hidden folder beside the final one, named after this process; leftovers of dead ones go."""
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        if not _alive(int(leftover.suffix[1:])):
            shutil.rmtree(leftover, ignore_errors=True)
    work = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def _make(source: Path, done: Path, raw: Path, spec: QuantizeSpec, plan: Plan) -> dict[str, Any]:
    from workbench.quant import autoround, modelopt
    from workbench.quant.layers import check_layers, coverage, layer_errors

    quantizer = {"auto-round": autoround, "modelopt": modelopt}[spec.recipe.method]
    plan = quantizer.run(
        source, raw, recipe=spec.recipe, plan=plan, trust=spec.model.trust_remote_code
    )
    errors: list[LayerError] = []
    for component, layers in plan.layers.items():
        _take(raw / component, source / component, done / component)
        check_layers(done / component, layers, plan.preset)
        errors += layer_errors(source / component, done / component, layers, plan.preset)
    for table in raw.glob("*.json"):  # what the quantizer measured on the way
        table.replace(done / table.name)
    shutil.rmtree(raw)
    _copy_others(source, done, set(plan.layers))
    return {
        "layers": [asdict(error) for error in errors],
        "kept": plan.kept,
        "coverage": {name: coverage(source / name, plan.layers[name]) for name in plan.layers},
        "tensor_parallel_sizes": sizes_of(source, plan.layers, plan.preset, spec.recipe),
    }


def _take(raw: Path, source: Path, done: Path) -> None:
    """Packed weights from the quantizer; the source's config plus how the weights are packed."""
    done.mkdir(parents=True)
    for file in weight_files(raw):
        file.replace(done / file.name)
    try:
        written = json.loads((raw / "config.json").read_text())["quantization_config"]
    except (OSError, KeyError, ValueError):
        raise QuantizationFailed(
            f"the quantizer wrote no quantization_config for the {raw.name}; see its log"
        ) from None
    config = json.loads((source / "config.json").read_text())
    config.pop("_name_or_path", None)  # some exporters leave a path of their machine there
    store.write_json(done / "config.json", {**config, "quantization_config": written})


def _copy_others(source: Path, done: Path, transformers: set[str]) -> None:
    """Every other component of the pipeline and the small files beside it."""
    index = json.loads((source / INDEX).read_text())
    for child in sorted(source.iterdir()):
        if child.is_dir() and child.name in index and child.name not in transformers:
            shutil.copytree(child, done / child.name, copy_function=shutil.copyfile)
        elif child.is_file() and child.suffix not in _WEIGHTS and child.name != store.MANIFEST:
            shutil.copyfile(child, done / child.name)
