"""Findings from what the engine would do, stock and with the workbench's plugin."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.quant.lint.fates import LayerFate
from workbench.quant.lint.findings import ERROR, NOTE, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.prediction import Prediction
from workbench.zoo.repairs import REPAIRS


def check_loading(
    component: Component, stock: Prediction, plugin: Prediction, *, served_with_plugin: bool
) -> Iterator[Finding]:
    """What will not load, or loads as something else.

    Args:
        component: As read.
        stock: What vLLM-Omni does with it.
        plugin: What it does with the plugin.
        served_with_plugin: Which of the two will serve it; faults of the other are notes.
    """
    served = plugin if served_with_plugin else stock
    file = component.quantization_file
    if served.outcome == "refused" and not served.layers:
        message = f"vLLM-Omni 0.30.0 refuses it: {served.reason}"
        yield Finding(ERROR, "engine-refuses", file, "", message)
    yield from _layers(component, served)
    if served_with_plugin and _bad(stock) and not _bad(plugin):
        cure = REPAIRS[stock.repair].cure if stock.repair in REPAIRS else "it is read right"
        yield Finding(
            NOTE, "stock-fails", file, "",
            f"without the workbench's plugin: {stock.outcome}, {stock.reason}. With it, {cure}; "
            "install the workbench where you serve",
        )  # fmt: skip


def _bad(prediction: Prediction) -> bool:
    return prediction.outcome in ("refused", "wrong numbers")


def _layers(component: Component, served: Prediction) -> Iterator[Finding]:
    dequantized: list[LayerFate] = []
    for layer in served.layers:
        if layer.rule == "scale-missing":
            continue  # told for each scale already
        if layer.fate == "dequantized":
            dequantized.append(layer)
        elif layer.fate in ("refused", "wrong"):
            linear = component.linears[layer.members[0]]
            file = component.file_of(next(iter(linear.tensors.values())))
            told = "does not load" if layer.fate == "refused" else "loads, and computes garbage"
            message = f"{told}: {layer.reason}"
            yield Finding(ERROR, layer.rule, file, layer.members[0], message)
    if dequantized:
        first = dequantized[0]
        yield Finding(
            NOTE, first.rule, component.where, first.members[0],
            f"{len(dequantized)} layers, this one first: {first.reason}",
        )  # fmt: skip
