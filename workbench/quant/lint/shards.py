"""Files against index, header and one another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workbench.quant.lint.findings import ERROR, WARNING, Finding
from workbench.quant.lint.folder import Component, Subject
from workbench.zoo.presets import PRESETS

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_SHARD = re.compile(r".+-\d{5}-of-\d{5}\.safetensors")


def check_files(subject: Subject, component: Component) -> Iterator[Finding]:
    """Everything that can be wrong with the weight files of a component."""
    for rule in (_missing, _index, _headers, _unused, _stale, _surplus, _twice, _size):
        yield from rule(component)
    yield from _pickles(subject, component)


def _missing(component: Component) -> Iterator[Finding]:
    source = component.files.indices[0].name if component.files.indices else "the others' numbers"
    for name in component.files.missing:
        yield Finding(
            ERROR,
            "shard-missing",
            f"{component.where}{name}",
            "",
            f"named by {source} but not there: incomplete copy? Download it again",
        )
    known = component.files.headers or component.files.missing
    if not known and not component.files.indices and _holds_weights(component):
        yield Finding(
            ERROR,
            "weights-missing",
            component.where,
            "",
            "holds no *.safetensors: incomplete copy?",
        )


def _holds_weights(component: Component) -> bool:
    """Whether the engine wants weights of it, as of a VAE, and not of a scheduler."""
    preset = next((one for one in PRESETS if one.family == component.family), None)
    named = {one.name for one in preset.components} if preset else set()
    return component.transformer or component.name in named


def _index(component: Component) -> Iterator[Finding]:
    files = component.files
    for fault in files.faults:
        name = f"{component.where}{files.indices[0].name}"
        yield Finding(ERROR, fault.rule, name, fault.tensor, fault.message)
    if len(files.indices) > 1:
        names = ", ".join(file.name for file in files.indices)
        yield Finding(
            ERROR,
            "index-twice",
            f"{component.where}{files.indices[1].name}",
            "",
            f"there are several indices ({names}) and vLLM-Omni refuses to choose; delete the "
            "one that another tool left",
        )


def _headers(component: Component) -> Iterator[Finding]:
    used = set(component.files.used)
    for name, header in component.files.headers.items():
        severity = ERROR if name in used else WARNING
        for fault in header.faults:
            yield Finding(
                severity, fault.rule, f"{component.where}{name}", fault.tensor, fault.message
            )


def _unused(component: Component) -> Iterator[Finding]:
    files = component.files
    for name in files.unused:
        yield Finding(
            WARNING,
            "shard-unindexed",
            f"{component.where}{name}",
            "",
            f"{files.headers[name].size} bytes that {files.indices[0].name} does not name, so they "
            "are not part of the model; delete them, or index them",
        )
    single = [name for name in files.headers if not _SHARD.fullmatch(name)]
    if single and len(single) < len(files.headers) and not files.weight_map:
        yield Finding(
            ERROR,
            "single-beside-shards",
            f"{component.where}{single[0]}",
            "",
            "lies beside shards without an index, and the engine loads all of them, the later over "
            "the earlier; delete those that are stale",
        )


def _stale(component: Component) -> Iterator[Finding]:
    files = component.files
    for name, file in files.weight_map.items():
        header = files.headers.get(file)
        if header is not None and not header.faults and name not in header.tensors:
            yield Finding(
                ERROR,
                "index-stale",
                f"{component.where}{files.indices[0].name}",
                name,
                f"the index says that {file} holds it, and it does not; the index is of another "
                "checkpoint (the unquantized one?): write it anew",
            )


def _surplus(component: Component) -> Iterator[Finding]:
    files = component.files
    for file in files.used if files.weight_map else ():
        for name in files.headers[file].tensors:
            owner = files.weight_map.get(name)
            if owner is None:
                yield Finding(
                    WARNING,
                    "tensor-unindexed",
                    f"{component.where}{file}",
                    name,
                    "the index does not name it, but the engine loads whole files; delete it from "
                    "the file, or index it",
                )


def _twice(component: Component) -> Iterator[Finding]:
    holders: dict[str, list[str]] = {}
    for file in component.files.used:
        for name in component.files.headers[file].tensors:
            holders.setdefault(name, []).append(file)
    for name, files in holders.items():
        if len(files) > 1:
            yield Finding(
                ERROR,
                "tensor-twice",
                f"{component.where}{files[-1]}",
                name,
                f"also lies in {', '.join(files[:-1])}, and the engine keeps whichever it reads "
                "last; delete one",
            )


def _size(component: Component) -> Iterator[Finding]:
    files = component.files
    held = sum(facts.nbytes for facts in component.tensors.values())
    if files.total_size and files.total_size != held and not files.missing:
        yield Finding(
            WARNING,
            "index-size",
            f"{component.where}{files.indices[0].name}",
            "",
            f"total_size says {files.total_size} bytes, the tensors take {held}; the index is of "
            "another checkpoint, or was not rewritten",
        )


def _pickles(subject: Subject, component: Component) -> Iterator[Finding]:
    folder = subject.folder / component.where
    for file in sorted(file for pattern in _PICKLES for file in folder.glob(pattern)):
        alone = not component.files.headers
        yield Finding(
            ERROR if alone else WARNING,
            "pickle",
            f"{component.where}{file.name}",
            "",
            "is a pickle, which can run any code when it is opened; "
            + ("convert it to safetensors" if alone else "safetensors lie beside it: delete it"),
        )
