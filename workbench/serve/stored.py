"""A pipeline that is quantized already: what its own files and metadata say."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import SpecError
from workbench.schemes import SCHEMES, SIXTEEN_BIT
from workbench.serve.expected import components, quantization_config
from workbench.zoo.families import family_of
from workbench.zoo.inventory import UNKNOWN, StoredLinear, linears


def stored_label(folder: Path) -> str | None:
    """Name for tables of what a folder holds, e.g. ``W4A16`` or ``FP8+NVFP4``; None at 16 bit.

    The schemes are those of the tensors in its files, whatever its metadata calls them.

    Args:
        folder: Pipeline in diffusers layout.

    Raises:
        SpecError: metadata and files contradict each other, or a layout that is not known.
        ModelNotFound: broken weight files, or a pipeline of no known family.
    """
    schemes: set[str] = set()
    for component in components(folder, family_of(folder)):
        schemes |= _schemes(folder, component)
    found = sorted(schemes, key=lambda name: -SCHEMES[name].bits)
    if len(found) == 1:
        return SCHEMES[found[0]].label
    return "+".join(found) or None


def _schemes(folder: Path, component: str) -> set[str]:
    quantized = {name: one for name, one in linears(folder / component).items() if one.quantized}
    config = quantization_config(folder / component)
    where = f"{folder / component}"
    if config and not quantized:
        raise SpecError(
            f"{where}/config.json has a quantization_config "
            f"({config.get('quant_method', 'no quant_method')}), but all weights there are "
            f"{', '.join(SIXTEEN_BIT[:2])} or {SIXTEEN_BIT[2]}: remove the entry and launch with "
            "quantization='fp8' or 'int8' to quantize while loading, or quantize the model again"
        )
    if quantized and not config:
        name, one = next(iter(quantized.items()))
        raise SpecError(
            f"{where} holds {len(quantized)} linears in fewer than 16 bits ({name} in {one.dtype}) "
            "and config.json says nothing of it, so the engine would read them as 16-bit numbers; "
            "restore its quantization_config, or give the 16-bit model"
        )
    _refuse_unknown(where, quantized)
    return {one.scheme for one in quantized.values()}


def _refuse_unknown(where: str, quantized: dict[str, StoredLinear]) -> None:
    for name, one in quantized.items():
        if one.scheme == UNKNOWN:
            raise SpecError(
                f"{where}: {name} lies in a layout that is not known here ({one.dtype} with "
                f"{', '.join(sorted(one.tensors))}), so what runs could not be proved; known are "
                f"{', '.join(SCHEMES)}. Quantize the 16-bit model with workbench.quantize"
            )
