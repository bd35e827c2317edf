"""Keys of specs: the same everywhere and ever, and another for what makes another result."""

import itertools
import subprocess
import sys

import pytest

from workbench.recipes import Calibration, QuantRecipe
from workbench.specs import GenerateSpec, LaunchSpec, ModelRef, PromptSet, Sampling

MODEL = ModelRef("embedded:qwen-image")
TUNED = QuantRecipe(
    method="auto-round", scheme="W4A16", iters=10, calibration=Calibration(prompts=("a cup",))
)


def test_keys_of_before_there_were_runtimes_hold():
    launch = LaunchSpec(model=MODEL, quantization="fp8")
    drawn = GenerateSpec(launch=launch, prompts=PromptSet("a"), seeds=(0, 1), sampling=Sampling())
    assert (launch.key, drawn.key) == ("4363febc1b34", "ed7874a7291d")


def test_keys_of_calibrations_with_a_guidance_of_their_own_hold():
    given = Calibration(prompts=("a cup",), guidance_scale=4.0)
    assert (given.key, TUNED.but(calibration=given).key) == ("35d04854df5d", "e2a9d877d6fc")
    assert given.key != Calibration(prompts=("a cup",)).key


def test_keys_are_the_same_in_another_process():
    code = (
        "from workbench.specs import *; import sys\n"
        "m = ModelRef('embedded:qwen-image')\n"
        "print(LaunchSpec(model=m, quantization='fp8').key, PromptSet(['一只茶壶']).key)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = LaunchSpec(model=MODEL, quantization="fp8").key, PromptSet(["一只茶壶"]).key
    assert tuple(done.stdout.split()) == expected


def test_keys_do_not_depend_on_the_order_of_fields():
    fields = {"num_inference_steps": 8, "height": 256, "true_cfg_scale": 2.0}
    keys = {Sampling(**dict(order)).key for order in itertools.permutations(fields.items())}
    assert len(keys) == 1


def test_keys_do_not_depend_on_how_a_value_was_written():
    one = GenerateSpec(
        launch=LaunchSpec(model=MODEL, quantization="fp8"),
        prompts=PromptSet("x"),
        seeds=[0, 1],
        sampling=Sampling(),
    )
    two = GenerateSpec(
        launch=LaunchSpec(model=MODEL, quantization="fp8"),
        prompts=PromptSet(("x",)),
        seeds=range(2),
        sampling=Sampling(),
    )
    assert one.key == two.key
    assert Sampling(true_cfg_scale=4).key == Sampling(true_cfg_scale=4.0).key


def test_a_key_is_an_interface_and_does_not_move():
    assert Sampling().key == Sampling(guidance_scale_2=None).key == "5c938965fde0"
    assert Sampling(guidance_scale_2=3).key != Sampling().key
    assert MODEL.key == "a64fce26d029"


@pytest.mark.parametrize(
    ("change", "value"),
    [("quantization", "int8"), ("dtype", "float32"), ("step_execution", True), ("max_num_seqs", 2)],
)
def test_every_field_of_a_launch_counts(change, value):
    launch = LaunchSpec(model=MODEL)
    assert launch.but(**{change: value}).key != launch.key
