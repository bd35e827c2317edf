"""One linear, three names: in the file, as a fused layer, and as vLLM-Omni's runtime calls it."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from workbench.zoo.presets import Fused, Preset


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
    """Name of the layer that a linear of the file ends up in, e.g. ``blocks.0.attn1.to_qkv``."""
    group = fused_group(preset, name)
    if group:
        name = f"{name.rpartition('.')[0]}.{group.runtime}"
    for own, other in preset.renamed:
        name = name.replace(own, other)
    return name


def file_names(preset: Preset, name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The linears of the file that a layer of the runtime was loaded from."""
    return tuple(one for one in known if runtime_name(preset, one) == name)


def matches(preset: Preset, pattern: str, name: str) -> bool:
    """Whether a recipe's pattern means a linear of the file.

    A pattern is part of the file's name, whole parts of its runtime or fused name
    (``attn.to_qkv``, ``ffn.net_0``, ``qkv_proj``), or a glob over either (``*.ffn.*``).

    Args:
        preset: The family's.
        pattern: What the user wrote; an empty one matches nothing.
        name: Name in the file, without the component and ``.weight``.
    """
    if not pattern:
        return False
    others = set(_other_names(preset, name))
    if any(sign in pattern for sign in "*?["):
        return any(fnmatchcase(one, pattern) for one in (name, *others))
    whole = f".{pattern.strip('.')}."
    return pattern in f".{name}." or any(whole in f".{one}." for one in others)


def _other_names(preset: Preset, name: str) -> Iterable[str]:
    yield runtime_name(preset, name)
    group = fused_group(preset, name)
    for alias in group.aliases if group else ():
        yield f"{name.rpartition('.')[0]}.{alias}"
