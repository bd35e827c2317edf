"""What a family's preset says, and about what."""

from __future__ import annotations

from dataclasses import dataclass

ONLINE, MODELOPT, AUTOROUND = "online", "modelopt", "auto-round"
EVERY = (ONLINE, MODELOPT, AUTOROUND)
"""Ways of quantizing: while the model loads, or by a checkpoint of either quantizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Linears inside the blocks that the engine builds in 16 bit, whatever the checkpoint says."""

    part: str
    """Part of ``.NAME.``, the dotted name of the module in a file, e.g. ``.img_mod.``."""
    reason: str
    source: str
    """File and line in the installed packages."""
    methods: tuple[str, ...] = EVERY
    """Ways of quantizing that this holds for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Projections that vLLM-Omni loads into one layer: all have one scheme."""

    parent: str
    """Last part of the owning module's name, e.g. ``attn1``."""
    parts: tuple[str, ...]
    runtime: str
    """Name of the fused layer."""
    aliases: tuple[str, ...] = ()
    """Other names that recipes call it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One part of a pipeline that holds weights."""

    name: str
    """Folder in a diffusers layout, else the first part of the names in the file."""
    methods: tuple[str, ...] = ()
    """Ways in which the engine quantizes it; none keeps it in 16 bit."""
    reason: str = ""
    """Why the other ways do not."""
    source: str = ""
    """File and line in the installed packages, where there is a reason."""
    optional: bool = False
    """Whether some models of the family lack it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One family as the engine sees it.

    Names are those in the file, without the component, unless said otherwise.
    """

    family: str
    components: tuple[Component, ...]
    blocks: tuple[str, ...]
    """Modules whose linears can be quantized; everything outside stays in 16 bit."""
    outside: str = ""
    """File and line that builds one of the linears outside."""
    offered: str = ""
    """A linear outside the blocks whose scheme the engine leaves to AutoRound's config, if any."""
    kept: tuple[Kept, ...] = ()
    fused: tuple[Fused, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Whole parts of names that differ in vLLM-Omni: (the file's, its own)."""
    rooted: tuple[tuple[str, str], ...] = ()
    """Beginnings of names that differ in vLLM-Omni: (the file's, its own)."""
    modules: tuple[tuple[str, str], ...] = ()
    """Parts by which the quantization config knows a layer whose module is called otherwise."""
    experts: str = ""
    """Part of a name whose numbered children are loaded into one mixture-of-experts layer."""
    row_parallel: tuple[str, ...] = ()
    """Ends of names of linears whose inputs tensor parallelism splits."""
    replicated: tuple[str, ...] = ()
    """Ends of names of linears that every tensor-parallel rank holds whole."""
    heads: tuple[str, ...] = ("num_attention_heads",)
    """Keys of the component's config.json that tensor parallelism must divide."""
    ignored: str = ""
    """Why the engine quantizes nothing of this family, if it does not."""
    not_offline: str = ""
    """Why the workbench does not quantize it into a checkpoint, if it does not."""

    @property
    def offline(self) -> bool:
        """Whether the workbench quantizes it into a checkpoint."""
        return not (self.ignored or self.not_offline)
