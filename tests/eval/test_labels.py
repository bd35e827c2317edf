import pytest

from workbench.eval.labels import label


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
