"""Make ``.venv`` ready for this machine: CUDA where a driver answers, else CPU.

Standard library only. Each step leaves a stamp when it is done, so a current environment is
reused and a half-finished one is made again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
TORCH_FOR_CPU = "https://download.pytorch.org/whl/cpu"
# What every notebook needs. Importing it proves the set-up and leaves its bytecode behind, in a
# third of the time that compiling all installed files takes.
PROOF = (
    "from workbench.torchvision_ops import define_missing; define_missing();"
    "import vllm_omni, diffusers, auto_round, skimage.metrics, plotly.io, papermill, nbconvert"
)


def main() -> None:
    """Install what is missing, step by step."""
    requirements = ROOT / "requirements" / f"{'cuda' if has_gpu() else 'cpu'}.txt"
    once("packages", digest(requirements), lambda: install_packages(requirements))
    once("project", digest(ROOT / "pyproject.toml"), install_project)


def has_gpu() -> bool:
    """Whether an NVIDIA driver answers and lists a device."""
    if shutil.which("nvidia-smi") is None:
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listed.returncode == 0 and "GPU" in listed.stdout


def digest(file: Path) -> str:
    """What an environment depends on: a file, its name, the Python and the place."""
    facts = f"{file.name} {platform.python_version()} {VENV}\n".encode()
    return hashlib.sha256(facts + file.read_bytes()).hexdigest()


def once(name: str, key: str, step: Callable[[], None]) -> None:
    """Run a step unless its stamp says that it was done for the same key."""
    stamp = VENV / f"{name}.stamp"
    if stamp.is_file() and stamp.read_text() == key:
        return
    stamp.unlink(missing_ok=True)
    step()
    stamp.write_text(key)


def install_packages(requirements: Path) -> None:
    """A new environment with every pinned package."""
    lines = requirements.read_text().splitlines()
    print(f"Installing {len(lines)} packages of {requirements.name} into .venv ...", flush=True)
    venv.create(VENV, clear=True, with_pip=True)
    pip("--no-compile", "-r", str(requirements))
    if requirements.name == "cpu.txt" and not runs("import torch"):
        pin = next(line for line in lines if line.startswith("torch=="))
        print(f"This {pin} is built for CUDA; taking the one of {TORCH_FOR_CPU}", flush=True)
        pip("--no-compile", "--force-reinstall", "--index-url", TORCH_FOR_CPU, pin)


def install_project() -> None:
    """The workbench itself, editable, and proof that the whole loads."""
    pip("-e", str(ROOT))
    print("Loading everything once ...", flush=True)
    if not runs(PROOF, show=True):
        sys.exit("The environment does not load (see above); remove .venv and try again.")


def pip(*arguments: str) -> None:
    """``pip install --no-deps``; only errors are shown."""
    command = [str(PYTHON), "-m", "pip", "install", "-qq", "--no-deps", *arguments]
    if subprocess.run(command, check=False).returncode:
        sys.exit("pip failed (see above); the next run starts this step again.")


def runs(code: str, *, show: bool = False) -> bool:
    """Whether a line of Python runs in the environment; its bytecode is kept."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [str(PYTHON), "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if show and done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    main()
