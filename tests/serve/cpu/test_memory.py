"""Figures of resident memory against a block of known size."""

import torch

from workbench.serve import omni
from workbench.serve.cpu import memory

BLOCK = 64 * 2**20
SLACK = 8 * 2**20


def test_a_block_is_seen_while_it_lives_and_its_peak_after() -> None:
    memory.set_baseline()
    assert memory.allocated_bytes() < SLACK
    block = torch.ones(BLOCK // 4)
    assert abs(memory.allocated_bytes() - BLOCK) < SLACK
    del block
    assert memory.allocated_bytes() < SLACK
    assert abs(memory.peak_bytes() - BLOCK) < SLACK


def test_what_was_there_before_does_not_count() -> None:
    before = torch.ones(BLOCK // 4)
    memory.set_baseline()
    assert memory.peak_bytes() < SLACK
    del before


def test_a_new_peak_forgets_the_old_one() -> None:
    memory.set_baseline()
    block = torch.ones(BLOCK // 4)
    del block
    memory.reset_peak()
    assert memory.peak_bytes() < SLACK


def test_small_blocks_stay_until_a_close_gives_them_back() -> None:
    """Blocks are kept to be used again; a model that was closed leaves nothing behind."""
    memory.set_baseline()
    blocks = [torch.ones(2**18) for _ in range(BLOCK // 2**20)]  # of 1 MiB
    del blocks
    assert memory.allocated_bytes() > BLOCK - SLACK
    omni.give_memory_back()
    assert memory.allocated_bytes() < SLACK
