import pytest

from workbench.errors import ReportError
from workbench.eval.parameters import check, declared, table

SOURCE = """\
# how many denoising steps
num_inference_steps = 20
precisions = ["FP8", "INT8"]  # what to compare
scale: float = 1.0
prompts = [
    "a cup",  # inside
    "a # b",
]  # what to draw
out = None
"""


def notebook(*cells):
    return {
        "cells": [{"cell_type": "code", "source": s, "metadata": {"tags": t}} for s, t in cells]
    }


@pytest.fixture
def known():
    return declared(notebook((SOURCE, ["parameters"])), "n.ipynb")


def test_names_defaults_and_comments_are_read(known):
    assert {name: p.default for name, p in known.items()} == {
        "num_inference_steps": 20,
        "precisions": ["FP8", "INT8"],
        "scale": 1.0,
        "prompts": ["a cup", "a # b"],
        "out": None,
    }
    assert [p.comment for p in known.values()] == [
        "how many denoising steps",
        "what to compare",
        "",
        "what to draw",
        "",
    ]


@pytest.mark.parametrize(
    "cells", [(("a = 1", []),), (("a = 1", ["parameters"]), ("b = 1", ["parameters"]))]
)
def test_exactly_one_tagged_cell_is_needed(cells):
    with pytest.raises(
        ReportError, match=r"n\.ipynb has [02] cells tagged 'parameters' and needs exactly one"
    ):
        declared(notebook(*cells), "n.ipynb")


def test_a_cell_that_is_no_python_is_refused():
    with pytest.raises(ReportError, match="not valid Python"):
        declared(notebook(("a = = 1", ["parameters"])), "n.ipynb")


def test_a_misspelt_name_is_refused_with_the_nearest(known):
    with pytest.raises(ReportError, match="no parameter 'precision'; did you mean 'precisions'"):
        check({"precision": ["FP8"]}, known, "n.ipynb")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"num_inference_steps": "20"}, "num_inference_steps='20' is str, but .* = 20 "),
        ({"num_inference_steps": True}, "is bool"),
        ({"precisions": "FP8"}, "precisions='FP8' is str"),
        ({"precisions": [8]}, r"precisions=\[8\] is list"),
        ({"out": object()}, "does not travel into a notebook"),
        ({"out": {1: 2}}, "does not travel into a notebook"),
    ],
)
def test_another_type_is_refused(known, given, named):
    with pytest.raises(ReportError, match=named):
        check(given, known, "n.ipynb")


def test_values_that_fit_pass(known):
    given = {"scale": 2, "precisions": ("FP8",), "prompts": [], "out": "x"}
    check(given, known, "n.ipynb")
    assert table(given, known).shape[0] == len(known)


def test_the_table_shows_value_and_default(known):
    row = table({"num_inference_steps": 4}, known).iloc[0]
    assert (row.value, row.default, row.meaning) == ("4", "20", "how many denoising steps")
