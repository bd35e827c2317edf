"""A launched model along another run's trajectories: what it predicts, what its layers give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import store
from workbench.audits import Audit
from workbench.errors import SpecError
from workbench.followed import LAYERS, VELOCITIES, Followed, FollowSpec, LayerRecording, LayersSpec
from workbench.records import Generation, GenerationSet
from workbench.specs import LaunchSpec, Sampling

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

Request = Callable[..., dict[str, Any]]
"""(prompt, seed, sampling, along, image) -> what the worker recorded."""
SHOWN_STEPS = 6


def follow_spec(
    launch: LaunchSpec, reference: GenerationSet, pairs: int | None, repeat: int
) -> FollowSpec:
    """The request to follow the first ``pairs`` generations of a set.

    Raises:
        SpecError: no pair.
    """
    if pairs is not None and pairs < 1:
        raise SpecError(f"pairs={pairs}: follow at least one; the set holds {len(reference)}")
    return FollowSpec(
        launch=launch,
        along=reference.key,
        pairs=tuple((item.prompt, item.seed) for item in reference.items[:pairs]),
        sampling=reference.spec.sampling,
        repeat=repeat,
    )


def layers_spec(
    launch: LaunchSpec,
    reference: GenerationSet,
    index: int,
    *,
    rows: int,
    steps: Iterable[int] | None,
) -> LayersSpec:
    """The request to record one pair's layers; six steps spread over the run unless named.

    Raises:
        SpecError: steps that the run does not take.
    """
    item = reference[index]
    taken = len(item.trajectory.timesteps)
    chosen = tuple(steps) if steps is not None else spread(taken)
    beyond = [step for step in chosen if not 1 <= step <= taken]
    if beyond:
        raise SpecError(f"steps={beyond}: this run takes steps 1 to {taken}; name some of those")
    return LayersSpec(
        launch=launch,
        along=reference.key,
        pairs=((item.prompt, item.seed),),
        sampling=reference.spec.sampling,
        rows=rows,
        steps=chosen,
    )


def spread(steps: int, count: int = SHOWN_STEPS) -> tuple[int, ...]:
    """Up to ``count`` steps from the first to the last."""
    return tuple(int(n) for n in np.unique(np.linspace(1, steps, min(count, steps)).round()))


def follow(spec: FollowSpec, reference: GenerationSet, request: Request, audit: Audit) -> Followed:
    """Predict along each trajectory; finished ones are kept."""
    folder = store.prepare(VELOCITIES, spec)
    chosen = reference.items[: len(spec.pairs)]
    names = [item.folder.name for item in chosen]
    for item in chosen:
        file = folder / item.folder.name / "velocities.safetensors"
        if not file.is_file():
            recorded = request(*_again(item, spec))
            store.make_folder(file.parent)
            _save(file, recorded, item)
    store.commit(folder, spec, {"items": names, "audit": audit.to_json()})
    return Followed.load(folder)


def record_layers(
    spec: LayersSpec, item: Generation, request: Request, save: Callable[[str], list[str]]
) -> LayerRecording:
    """Follow one trajectory with every linear watched.

    Args:
        spec: What is asked for.
        item: The generation that is followed.
        request: Runs it, watched.
        save: Writes what was watched to a file; returns the names of the linears.
    """
    folder = store.prepare(LAYERS, spec)
    recorded = request(*_again(item, spec))
    partial = folder / ".layers.partial"
    linears = save(str(partial))
    partial.replace(folder / "layers.safetensors")
    timesteps = {step: recorded["timesteps"][step - 1] for step in spec.steps}
    store.commit(folder, spec, {"linears": linears, "timesteps": timesteps})
    return LayerRecording.load(folder)


def error_table(recording: LayerRecording, answer: dict[str, Any], audit: Audit) -> pd.DataFrame:
    """Rows of the worker, in the order of the network, with what each linear runs in."""
    import pandas as pd

    found = {layer.name: layer for layer in audit.layers}
    order = {name: position for position, name in enumerate(recording.linears)}
    rows = []
    for row in sorted(answer["rows"], key=lambda row: (order[row["name"]], row["step"])):
        component, _, name = row["name"].partition(".")
        layer = found.get(row["name"])
        rows.append(
            {
                "component": component,
                "name": name,
                "scheme": layer.found if layer else "",
                "quantized": bool(layer and layer.quantized),
                "step": row["step"],
                "timestep": recording.timesteps[row["step"]],
                "relative_l2": row["relative_l2"],
            }
        )
    table = pd.DataFrame(rows)
    table.attrs["missing"] = sorted(set(recording.linears) - set(answer["linears"]))
    return table


def _again(
    item: Generation, spec: FollowSpec
) -> tuple[str, int, Sampling, Path, Image.Image | None]:
    """The request that drew a generation, led along its trajectory."""
    file = item.folder / "trajectory.safetensors"
    return item.prompt, item.seed, spec.sampling, file, item.input_image


def _save(file: Path, recorded: dict[str, Any], item: Generation) -> None:
    from safetensors.numpy import save

    own, theirs = np.float32(recorded["latents"][0]), item.trajectory.latents[0]
    if not np.array_equal(own, theirs):
        raise SpecError(
            f"the run along {item.folder} began with other noise; follow a set of the same model"
        )
    arrays = {
        "velocities": np.float32(recorded["velocities"]),
        "timesteps": np.float64(recorded["timesteps"]),
    }
    store.write_bytes(file, save(arrays))
