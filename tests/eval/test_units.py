from workbench.eval.units import memory_unit


def test_memory_is_shown_in_gib_from_one_gib_on():
    assert memory_unit(2**30 - 1) == ("MiB", 2**20)
    assert memory_unit(2**30) == ("GiB", 2**30)
