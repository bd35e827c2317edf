"""A launch as the command line of ``vllm serve --omni``, and the flags that cannot be on it.

Paths are those of vllm_omni 0.30.0.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from workbench.errors import SpecError
from workbench.serve.omni import EXTENSION, own_schedule
from workbench.serve.server_process import LOOPBACK
from workbench.specs import LaunchSpec, Parallelism

PROGRAM = (sys.executable, "-P", "-m", "workbench.serve.server_main")
"""What the ``vllm`` command is with ``--omni``, whatever lies first on the PATH."""
DOOR = "workbench.serve.server_door.Door"
CPU_NOISE = {"0": {"generator_device": "cpu"}}
"""/v1/videos begins with these (openai/serving_video.py:565), and has no field of its own."""
FLAGS = {
    "tensor_parallel_size": "--tensor-parallel-size",
    "cfg_parallel_size": "--cfg-parallel-size",
    "ulysses_degree": "--ulysses-degree",
    "ring_degree": "--ring-degree",
    "vae_patch_parallel_size": "--vae-patch-parallel-size",
    "quantization": "--quantization",
    "dtype": "--dtype",
    "attention_backend": "--diffusion-attention-config",
    "step_execution": "--step-execution",
    "max_num_seqs": "--max-num-seqs",
    "request_batch_max_wait_ms": "--request-batch-max-wait-ms",
    "enforce_eager": "--enforce-eager",
    "trust_remote_code": "--trust-remote-code",
}
"""Field of LaunchSpec, Parallelism or ModelRef -> flag (entrypoints/cli/serve.py)."""
_REPLICAS = (
    "vLLM-Omni 0.30.0 calls it unsupported under --omni, and starts unchecked ranks all the same: "
    "its check reads a name that nothing sets (entrypoints/cli/serve.py:264); start several "
    "servers, or describe replicas in a file for --deploy-config"
)
_ONE = "a diffusion model is served by one API server (entrypoints/cli/serve.py:309)"
REFUSED = {
    "--linear-backend": (
        "it is of language models: a diffusion stage has no such field and does not start "
        "(diffusion/data.py:195); for ModelOpt FP8 use --force-cutlass-fp8"
    ),
    "--data-parallel-size": _REPLICAS,
    "--data-parallel-size-local": _REPLICAS,
    "--data-parallel-address": _REPLICAS,
    "--data-parallel-rpc-port": _REPLICAS,
    "--data-parallel-start-rank": _REPLICAS,
    "--data-parallel-backend": _REPLICAS,
    "--enable-expert-parallel": _REPLICAS,
    "--api-server-count": _ONE,
    "--headless": _ONE,
}
"""Flag -> why it cannot be passed on."""
_DEGREES = "give parallelism=Parallelism(...) instead"
OURS = {
    **{flag: f"give {name}= instead" for name, flag in FLAGS.items()},
    **{FLAGS[name]: _DEGREES for name in Parallelism.model_fields},
    **dict.fromkeys(("--usp", "--ring"), _DEGREES),
    "--trust-remote-code": "give ModelRef(..., trust_remote_code=True) instead",
    "--diffusion-attention-backend": "give attention_backend= instead",
    "--diffusion-quantization-config": "give quantization=, or serve a quantized checkpoint",
    "--host": f"the server listens on {LOOPBACK} alone",
    "--uds": f"the server listens on {LOOPBACK} alone",
    "--port": "give port= instead",
    "--default-sampling-params": "give sampling= instead; it is how noise comes from the CPU",
    "--model": "the model is the first argument",
    "--omni": "it is always there",
    "--config": "a file of flags would escape these checks; give the flags themselves",
    "--stage-init-timeout": "give start_timeout_s= instead",
    "--init-timeout": "give start_timeout_s= instead",
    "--worker-extension-cls": "the audit of the workbench runs as one",
    "--middleware": "the workbench guards the audit's route with one",
    "--api-key": "the workbench's own requests would be turned away",
    "--root-path": "the workbench's own requests would be turned away",
    "--ssl-keyfile": "the workbench speaks plain HTTP to the loopback address",
    "--ssl-certfile": "the workbench speaks plain HTTP to the loopback address",
}
"""Flag -> how to say it otherwise."""


def check_flags(extra: Iterable[str]) -> None:
    """Refuse flags that the server would not start with, or that are arguments of ours.

    In whatever way vLLM reads them: ``--a_b``, ``--a-b=1``, ``--a-b.c``, ``--no-a-b``, and the
    beginning of a flag.

    Raises:
        SpecError: names the flag, why, and what to do instead.
    """
    for word in extra:
        if word.startswith("-") and not word.startswith("--") and not _is_number(word):
            raise SpecError(f"extra_flags has {word!r}; write the long name of the flag")
        name = word.partition("=")[0].partition(".")[0].replace("_", "-")
        names = tuple(n for n in (name, name.replace("--no-", "--", 1)) if len(n) > 2)
        for flag, why in {**OURS, **REFUSED}.items():
            if word.startswith("--") and any(flag.startswith(one) for one in names):
                raise SpecError(f"extra_flags has {word!r}: {why}")


def command(spec: LaunchSpec, folder: Path, port: int, start_timeout_s: float) -> list[str]:
    """The command line that serves a folder as a LaunchSpec says."""
    patience = str(math.ceil(start_timeout_s))
    return [
        *PROGRAM,
        "serve",
        str(folder),
        "--omni",
        *("--host", LOOPBACK, "--port", str(port)),
        *_fields(spec),
        *("--stage-init-timeout", patience, "--init-timeout", patience),
        *("--worker-extension-cls", EXTENSION, "--middleware", DOOR),
        *("--default-sampling-params", json.dumps(CPU_NOISE)),
        *_schedule(folder),
        *spec.extra_flags,
    ]


def _fields(spec: LaunchSpec) -> Iterator[str]:
    values = {
        **spec.parallelism.model_dump(),
        "quantization": spec.quantization,
        "dtype": spec.dtype,
        "attention_backend": spec.attention_backend
        and json.dumps({"default": spec.attention_backend}),
        "step_execution": spec.step_execution,
        "max_num_seqs": spec.max_num_seqs,
        "request_batch_max_wait_ms": spec.request_batch_max_wait_ms or None,
        "enforce_eager": spec.enforce_eager,
        "trust_remote_code": spec.model.trust_remote_code,
    }
    for name, value in values.items():
        if value is True:
            yield FLAGS[name]
        elif value is not None and value is not False:
            yield from (FLAGS[name], str(value))


def _schedule(folder: Path) -> Iterator[str]:
    for name, value in own_schedule(folder).items():
        yield from ("--" + name.replace("_", "-"), str(value))


def _is_number(word: str) -> bool:
    return word.removeprefix("-").replace(".", "", 1).isdecimal()
