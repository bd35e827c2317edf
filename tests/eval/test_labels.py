import pytest

from workbench.eval.labels import label, labels
from workbench.recipes import Calibration, QuantRecipe


@pytest.mark.parametrize(
    ("precision", "repeat", "expected"),
    [
        ("BF16", 0, "BF16"),
        ("BF16", 1, "BF16 repeat"),
        ("FP8", 2, "FP8 repeat 2"),
        ("W4A16", 0, "W4A16"),
    ],
)
def test_a_label_is_the_precision_and_which_repeat(make_set, precision, repeat, expected):
    assert label(make_set(precision, repeat=repeat)) == expected


def recipe(**values):
    return {"recipe": QuantRecipe(**({"method": "auto-round", "scheme": "W4A16"} | values))}


def tuned(**values):
    return recipe(calibration=Calibration(prompts=("a cat",)), **values)


@pytest.mark.parametrize(
    ("launches", "expected"),
    [
        ([recipe(), recipe(group_size=64)], ["W4A16", "W4A16 g64"]),
        (
            [tuned(iters=50), tuned(iters=200), recipe()],
            ["W4A16 tuned (iters=50)", "W4A16 tuned (iters=200)", "W4A16"],
        ),
        (
            [
                recipe(scheme="MXFP8"),
                recipe(scheme="MXFP8", method="modelopt"),
            ],
            ["MXFP8 (method=auto-round)", "MXFP8 (method=modelopt)"],
        ),
    ],
)
def test_recipes_of_one_label_are_told_apart_by_what_differs(make_set, launches, expected):
    assert labels(make_set("W4A16", launch=launch) for launch in launches) == expected


def test_what_is_too_long_to_read_is_told_apart_by_key(make_set):
    sets = [make_set("W4A16", launch=recipe(ignore=ignore)) for ignore in (("a",), ("b",))]
    assert labels(sets) == [f"W4A16 (#{one.spec.launch.key[:4]})" for one in sets]


def test_the_same_launch_twice_keeps_its_label(make_set):
    assert labels([make_set(), make_set(), make_set(repeat=1)]) == ["BF16", "BF16", "BF16 repeat"]
