"""The nearest valid layout: by the plain definition, and fast enough for 64 devices."""

from __future__ import annotations

import time
from math import log
from pathlib import Path

import pytest
from sparse_pipelines import qwen_image, w4a16

import workbench as wb
from workbench.serve.plan_nearest import SIZES
from workbench.serve.plan_result import Plan
from workbench.specs import Parallelism


def by_definition(plan: Plan, asked: Parallelism) -> Parallelism:
    """The closest of all valid ones, one by one."""

    def distance(other: Parallelism) -> tuple[float, int, int]:
        far = sum(abs(log(getattr(asked, name) / getattr(other, name))) for name in SIZES)
        return round(far, 9), -other.world_size, other.tensor_parallel_size

    return min((one.parallelism for one in plan.valid), key=distance)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ({}, {}),
        ({"packing": w4a16}, {"device": "cpu"}),
        ({"heads": 30, "width": 3840, "inner": 15360}, {"gpus": 12}),
        ({"pipeline": "OvisImagePipeline"}, {}),
        ({}, {"sampling": wb.Sampling(true_cfg_scale=1.0, height=528, width=1040)}),
    ],
)
def test_it_is_the_closest_of_all_valid_ones(tmp_path: Path, shape: dict, options: dict) -> None:
    folder = qwen_image(tmp_path / "m", **shape)
    plan = wb.plan(str(folder), **{"gpus": 8, "gpu_memory_gib": 80, **options})
    for layout in plan:
        expected = None if layout.valid else by_definition(plan, layout.parallelism)
        assert layout.nearest == expected
    more = {"tensor_parallel_size": 9, "ulysses_degree": 3, "vae_patch_parallel_size": 20}
    assert plan.layout(**more).nearest == by_definition(plan, Parallelism(**more))


def test_a_table_of_sixty_four_devices_takes_seconds(tmp_path: Path) -> None:
    """Processor time, as other work may share the machine; it was minutes once."""
    plan = wb.plan(str(qwen_image(tmp_path / "m")), gpus=64, gpu_memory_gib=80)
    started = time.process_time()
    table = plan.table()
    assert time.process_time() - started < 8
    assert len(table) == len(plan) > 40_000
    assert table.nearest.notna().equals(~table.valid)
