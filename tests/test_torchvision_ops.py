"""torchvision loads beside this torch, whichever builds the two are."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("times", [1, 2])
def test_torchvision_imports_in_a_fresh_process(times: int) -> None:
    code = "from workbench.torchvision_ops import define_missing;" + "define_missing();" * times
    code += "import torchvision, transformers.image_utils"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_worker_needs_no_call_of_ours() -> None:
    code = "import vllm.config, torchvision"  # vLLM calls it by entry point, before the import
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
