"""What each linear was given and gave back, and what another model's linear makes of the same.

Runs inside the workers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from workbench.serve.recorder import Recorder

INPUT, OUTPUT = "input", "output"


class LayerRecorder:
    """Keeps some rows of each linear's first call in each step, from its making until the save.

    The first call is the one with the prompt; a second one has the negative prompt.
    """

    def __init__(
        self,
        linears: Iterable[tuple[str, torch.nn.Module]],
        recorder: Recorder,
        rows: int,
        steps: Collection[int],
    ) -> None:
        self._recorder, self._rows, self._steps = recorder, rows, set(steps)
        self._kept: dict[str, Tensor] = {}
        self._hooks = [
            module.register_forward_hook(self._keeping(name), with_kwargs=True)
            for name, module in linears
        ]

    def save(self, file: str) -> list[str]:
        """Write inputs [rows, in] and outputs [rows, out] by ``NAME|STEP|input``; the names.

        The hooks are taken off.
        """
        for hook in self._hooks:
            hook.remove()
        save_file(self._kept, file)
        names = list(dict.fromkeys(key.split("|")[0] for key in self._kept))  # as they were called
        self._kept = {}
        return names

    def _keeping(self, name: str) -> Any:
        def keep(
            module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any
        ) -> None:
            step = self._recorder.step
            if step not in self._steps or f"{name}|{step}|{INPUT}" in self._kept:
                return
            given = next(value for value in (*inputs, *named.values()) if torch.is_tensor(value))
            given, gave = _flat(given), _flat(_tensor(output))
            rows = _chosen(given, self._rows)
            self._kept[f"{name}|{step}|{INPUT}"] = given[rows].detach().cpu().contiguous()
            self._kept[f"{name}|{step}|{OUTPUT}"] = gave[rows].detach().cpu().contiguous()

        return keep


@torch.inference_mode()
def output_errors(loaded: Mapping[str, torch.nn.Module], file: str) -> list[dict[str, Any]]:
    """``||y - y'|| / ||y||`` of each recorded linear and step, y recorded and y' computed here.

    Returns:
        Rows of name, step, relative_l2; linears that are not loaded here are left out.
    """
    rows = []
    with safe_open(file, framework="pt") as recorded:
        for key in sorted(recorded.keys()):
            name, step, side = key.split("|")
            if side != INPUT or name not in loaded:
                continue
            module = loaded[name]
            wanted = recorded.get_tensor(f"{name}|{step}|{OUTPUT}").double()
            given = recorded.get_tensor(key).to(_device(module))
            found = _flat(_tensor(module(given))).cpu().double()
            rows.append({"name": name, "step": int(step), "relative_l2": _relative(wanted, found)})
    return rows


def _chosen(given: Tensor, rows: int) -> Tensor:
    """Rows spread evenly, and the one with the largest entry: it sets a per-tensor scale."""
    spread = torch.linspace(0, len(given) - 1, min(rows, len(given))).long()
    largest = given.float().abs().amax(dim=1).argmax().cpu()
    return torch.unique(torch.cat([spread, largest[None]]))


def _relative(wanted: Tensor, found: Tensor) -> float:
    error, size = torch.linalg.vector_norm(wanted - found), torch.linalg.vector_norm(wanted)
    return 0.0 if error == 0 else float(error / size)


def _tensor(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _device(module: torch.nn.Module) -> torch.device:
    tensors = (*module.parameters(), *module.buffers())
    return next((t.device for t in tensors), torch.device("cpu"))  # packed out of sight on CPU
