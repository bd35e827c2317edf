"""Carry the pins of ``requirements/*.txt`` into pyproject.toml and the conda environments.

``make lock`` runs this after resolving; tests/test_environment.py fails when it is due.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONDA = {"environment.yml": "cpu", "environment-cuda.yml": "cuda"}
CONDA_HEAD = """\
# Written by tools/pins.py from requirements/{flavour}.txt, so complete that pip resolves nothing:
#     PIP_NO_DEPS=1 conda env create -f {name}
#     conda run -n omni-quant-workbench pip install --no-deps -e .
name: omni-quant-workbench
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
"""


def requirements(flavour: str) -> list[str]:
    """Lines of a pinned requirement file, such as ``av==18.1.0 ; python_version < '3.12'``."""
    return (ROOT / "requirements" / f"{flavour}.txt").read_text().splitlines()


def pins(flavour: str) -> dict[str, str]:
    """Version of every package that has one version on all Pythons and systems."""
    split = [re.split(r"==|\s*;\s*", line) for line in requirements(flavour)]
    names = [name for name, *_ in split]
    return {name: version for name, version, *_ in split if names.count(name) == 1}


def conda(name: str) -> str:
    """Text of a conda environment file."""
    flavour = CONDA[name]
    lines = "".join(f'      - "{line}"\n' for line in requirements(flavour))
    return CONDA_HEAD.format(flavour=flavour, name=name) + lines


def project(text: str) -> str:
    """The text of pyproject.toml with every ``"name==version"`` as it is pinned."""
    known = pins("cuda") | pins("cpu")
    return re.sub(r'"([\w-]+)==[^"]+"', lambda found: f'"{found[1]}=={known[found[1]]}"', text)


def main() -> None:
    """Write the three files."""
    pyproject = ROOT / "pyproject.toml"
    pyproject.write_text(project(pyproject.read_text()))
    for name in CONDA:
        (ROOT / name).write_text(conda(name))


if __name__ == "__main__":
    main()
