"""Tensors on their way to the model: FP8 whose scales nobody reads is refused."""

from types import SimpleNamespace

import pytest
import torch

from workbench.torchvision_ops import define_missing

define_missing()

from workbench.serve.plugin.unread import _watched  # noqa: E402

FP8 = torch.ones(2, 2).to(torch.float8_e4m3fn)
SCALED = [("a.weight", FP8), ("a.weight_scale", torch.ones(1)), ("b.weight", torch.ones(2))]
MODEL = torch.nn.Linear(2, 2)
ONLINE = SimpleNamespace(is_checkpoint_fp8_serialized=False)
STORED = SimpleNamespace(is_checkpoint_fp8_serialized=True)


def passed(weights: list[tuple[str, torch.Tensor]], config: object) -> list[str]:
    loader = SimpleNamespace(quant_config=config)
    return [name for name, _ in _watched(lambda self, model: iter(weights))(loader, MODEL)]


@pytest.mark.parametrize("config", [None, ONLINE])
def test_scales_that_nobody_reads_are_refused(config: object) -> None:
    with pytest.raises(ValueError, match=r"1 weights are stored in FP8 with a scale, a the first"):
        passed(SCALED, config)


@pytest.mark.parametrize("config", [STORED, SimpleNamespace()])
def test_where_they_are_read_all_passes(config: object) -> None:
    assert passed(SCALED, config) == ["a.weight", "a.weight_scale", "b.weight"]


def test_fp8_without_scales_is_a_plain_cast() -> None:
    assert passed([("a.weight", FP8), ("b.weight_scale", torch.ones(1))], None)
