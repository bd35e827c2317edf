"""Wall time of W4A16 RTN: the workbench against AutoRound's own command line, in pairs.

    python benchmarks/autoround_cli.py [PAIRS] [FOLDER]

Either side is a process of its own, from start to exit, on the same folder; the order alternates.
The command line is the one that writes what vLLM-Omni loads: the regular flow, without the layers
that the engine keeps in 16 bit. Prints the ratio of each pair, its median and range, and what the
workbench's process spent its time on. On a busy machine the processor time is the fairer figure.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import workbench as wb
from workbench import zoo

OURS = """
import json, sys, time
began = time.perf_counter()
import workbench as wb
if __name__ == "__main__":
    checkpoint = wb.quantize(sys.argv[1], wb.QuantRecipe(method="auto-round", scheme="W4A16"))
    print(json.dumps({"quantize_s": checkpoint.elapsed_s,
                      "in_process_s": time.perf_counter() - began}))
"""
# AutoRound's entry point, after the mend without which it does not start beside a CPU's torch.
THEIRS = """
import sys
from workbench.torchvision_ops import define_missing
define_missing()
from auto_round.__main__ import run
if __name__ == "__main__":
    sys.argv[0] = "auto-round"
    run()
"""
OPTIONS = (
    "--scheme", "W4A16", "--iters", "0", "--disable_opt_rtn", "--disable_model_free",
    "--disable_torch_compile", "--disable_low_cpu_mem_usage", "--format", "auto_round",
    "--ignore_layers", "img_mod",
)  # fmt: skip


def timed(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Seconds of wall and of processor time of a process, and what it printed."""
    environment = {**os.environ, "WORKBENCH_RUNS": str(folder / "runs")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command[:3]} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used, done.stdout


def pair(source: Path, ours_first: bool) -> dict[str, tuple[float, float, str]]:
    """One run of either side, each in a fresh folder."""
    found = {}
    for ours in (ours_first, not ours_first):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "ours.py").write_text(OURS)
            (folder / "theirs.py").write_text(THEIRS)
            command = (
                [sys.executable, "ours.py", str(source)]
                if ours
                else [
                    sys.executable,
                    "theirs.py",
                    "--model",
                    str(source),
                    *OPTIONS,
                    "--output_dir",
                    "out",
                ]
            )
            found["workbench" if ours else "auto-round"] = timed(command, folder)
    return found


def main(pairs: int, source: Path) -> None:
    """Warm the file cache with one pair, then measure."""
    pair(source, ours_first=True)
    runs = [pair(source, ours_first=index % 2 == 0) for index in range(pairs)]
    for kind, what in ((0, "wall"), (1, "processor")):
        ratios = [run["workbench"][kind] / run["auto-round"][kind] for run in runs]
        sides = {side: statistics.median(run[side][kind] for run in runs) for side in runs[0]}
        print(
            f"{what} time, workbench / auto-round: median {statistics.median(ratios):.3f}, range "
            f"{min(ratios):.3f} to {max(ratios):.3f}, {pairs} pairs; "
            + ", ".join(f"{side} {seconds:.1f} s" for side, seconds in sides.items())
        )
    inside = json.loads(runs[-1]["workbench"][2].strip().splitlines()[-1])
    total = runs[-1]["workbench"][0]
    print(
        f"of the workbench's last {total:.1f} s: {inside['quantize_s']:.1f} s quantizing (imports "
        f"of the libraries included), {total - inside['in_process_s']:.1f} s starting and leaving"
    )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    model = sys.argv[2] if len(sys.argv) > 2 else "embedded:qwen-image"
    main(count, zoo.locate(wb.ModelRef(model)))
