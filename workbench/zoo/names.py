"""One linear, many names: in the file, as a fused layer, and as vLLM-Omni's runtime calls it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from workbench.zoo.preset import Fused, Preset

Pairs = tuple[tuple[str, str], ...]


def fused_group(preset: Preset, name: str) -> Fused | None:
    """The fused layer that a linear of the file is loaded into, if any."""
    owner, _, part = name.rpartition(".")
    for group in preset.fused:
        if part in group.parts and owner.rpartition(".")[2] == group.parent:
            return group
    return None


def siblings(preset: Preset, name: str) -> tuple[str, ...]:
    """All linears of the file that share the layer with this one, itself included."""
    group = fused_group(preset, name)
    owner = name.rpartition(".")[0]
    return tuple(f"{owner}.{part}" for part in group.parts) if group else (name,)


def runtime_name(preset: Preset, name: str) -> str:
    """Name by which the engine's quantization config knows the layer of a linear of the file.

    E.g. ``blocks.0.attn1.to_k`` is part of ``blocks.0.attn1.to_qkv``; without the component.
    """
    if preset.experts and (mixture := re.match(rf"(.+\.{preset.experts})\.\d+\.", name)):
        name = mixture[1]
    group = fused_group(preset, name)
    if group:
        name = f"{name.rpartition('.')[0]}.{group.runtime}"
    name = _replaced(name, preset.renamed)
    for own, other in preset.rooted:
        if name.startswith(own):
            return other + name.removeprefix(own)
    return name


def stored_name(preset: Preset, name: str) -> str:
    """Name in a ModelOpt checkpoint of a linear of the 16-bit file; `canonical` undoes it.

    With the parts that the engine renames, as it drops scales of other names
    (vllm_omni/diffusion/model_loader/checkpoint_adapters/modelopt.py:182).
    """
    return _replaced(name, preset.renamed)


def module_name(preset: Preset, name: str) -> str:
    """Path of that layer in the loaded model, without the component."""
    return _replaced(runtime_name(preset, name), preset.modules)


def canonical(preset: Preset, name: str) -> str:
    """Name as in the diffusers file of a linear called as at run time.

    A fused layer's own part stays, as several linears of the file lie in it
    (:func:`file_names` tells which); a name of the file stays as it is.
    """
    for own, other in preset.rooted:
        if name.startswith(other):
            name = own + name.removeprefix(other)
    for pairs in (preset.modules, preset.renamed):
        backwards = tuple((other, own) for own, other in pairs)
        name = _replaced(_replaced(name, pairs), backwards)
    return name


def file_names(preset: Preset, name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The linears of the file that a layer of the runtime was loaded from.

    Args:
        preset: The family's.
        name: Of the layer, as the quantization config or the loaded model calls it.
        known: Linears of the file.
    """
    own = canonical(preset, name)
    return tuple(
        one
        for one in known
        if own in (canonical(preset, one), canonical(preset, runtime_name(preset, one)))
    )


def matches(preset: Preset, pattern: str, name: str, component: str = "") -> bool:
    """Whether a recipe's pattern means a linear of the file.

    A pattern is whole parts of the linear's name in the file, at run time or as a fused layer
    (``img_mlp``, ``attn.to_qkv``, ``ffn.net_0``, ``qkv_proj``), or a glob over such parts
    (``transformer_blocks.*.attn``). ``^`` holds it to the beginning of the name, and the
    component's name in front holds it to that component (``transformer_2.blocks.0``).

    Args:
        preset: The family's.
        pattern: What the user wrote; an empty one matches nothing.
        name: Name in the file, without the component and ``.weight``.
        component: That the linear belongs to.
    """
    wanted = pattern.removeprefix("^").strip(".")
    if not wanted:
        return False
    before = "" if pattern.startswith("^") else "*"
    for one in spellings(preset, name):
        for whole in (one, f"{component}.{one}") if component else (one,):
            if fnmatchcase(f".{whole}.", f"{before}.{wanted}.*"):
                return True
    return False


def spellings(preset: Preset, name: str) -> tuple[str, ...]:
    """Every name that a recipe may call a linear of the file by, without the component."""
    group = fused_group(preset, name)
    owner = name.rpartition(".")[0]
    fused = [f"{owner}.{part}" for part in (group.runtime, *group.aliases)] if group else []
    return tuple(
        dict.fromkeys((name, runtime_name(preset, name), module_name(preset, name), *fused))
    )


def nearest(preset: Preset, pattern: str, names: Iterable[str]) -> list[str]:
    """Parts of names that a pattern without a match may have meant, the likeliest first."""
    pool: dict[str, None] = {}
    for name in names:
        for one in spellings(preset, name):
            parts = one.split(".")
            pool.update(
                (".".join(parts[start:end]), None)
                for start in range(len(parts))
                for end in range(start + 1, len(parts) + 1)
                if not parts[start].isdigit()
            )
    return get_close_matches(pattern, pool, n=3, cutoff=0.7)


def _replaced(name: str, pairs: Pairs) -> str:
    padded = f".{name}."
    for own, other in pairs:
        padded = padded.replace(f".{own}.", f".{other}.")
    return padded[1:-1]
