"""The module that a server's process runs: its stand-in for audio, and who imports it."""

import importlib
import subprocess
import sys

import pytest

from workbench.serve.server_main import LEFT_OUT, stand_in


def test_a_stand_in_can_be_imported_from_and_says_what_is_missing(monkeypatch):
    for name in LEFT_OUT:
        monkeypatch.setitem(sys.modules, name, stand_in(name))
    assert importlib.util.find_spec("torchaudio") is not None
    function = importlib.import_module("torchaudio.functional").resample
    with pytest.raises(RuntimeError, match=r"torchaudio.functional.resample needs torchaudio"):
        function([0.0], 1, 2)


def test_the_package_leaves_the_childs_module_to_be_run():
    """Else Python warns in the log of every server that it is there already."""
    code = "import sys, workbench.serve; print('workbench.serve.server_main' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "False"
