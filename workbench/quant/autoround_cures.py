"""What AutoRound 0.16.1 gets wrong for diffusion transformers, mended while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BLOCKS = {"QwenImageTransformerBlock": ["encoder_hidden_states", "hidden_states"]}
"""Blocks that AutoRound does not know, and the order of what they return."""
TEXT = "encoder_hidden_states"


@contextmanager
def cures(*, both_streams: bool = True) -> Iterator[None]:
    """Let AutoRound tune double-stream transformers, and undo it after.

    It does not know that a QwenImageTransformerBlock returns (text, image), and feeds the text to
    the next block as image. It casts cached block inputs to bfloat16, the complex rotary embedding
    included, which drops the imaginary part. And its block loss sees the image stream alone, so
    that what only the text passes (``add_q_proj``, ``to_add_out``, ``txt_mlp``) stays untuned.

    Args:
        both_streams: Count the error of the text stream as well.
    """
    from auto_round.algorithms import block_runner
    from auto_round.algorithms.quantization.sign_round.quantizer import SignRoundQuantizer
    from auto_round.calibration import inputs

    outputs, cast = block_runner._DIFFUSION_OUTPUT_REGISTRY, inputs.to_dtype
    added, tune = BLOCKS.keys() - outputs.keys(), SignRoundQuantizer.quantize_block
    outputs.update({name: BLOCKS[name] for name in added})
    inputs.to_dtype = leaving_complex(cast)
    if both_streams:
        SignRoundQuantizer.quantize_block = _with_text(tune)
    try:
        yield
    finally:
        inputs.to_dtype, SignRoundQuantizer.quantize_block = cast, tune
        for name in added:
            del outputs[name]


def leaving_complex(cast: Callable[..., Any]) -> Callable[..., Any]:
    """A cast of tensors in nested lists that leaves complex ones as they are."""
    from torch import Tensor

    def to_dtype(value: Any, dtype: Any) -> Any:
        if isinstance(value, Tensor) and value.is_complex():
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(to_dtype(item, dtype) for item in value)
        return cast(value, dtype)

    return to_dtype


def _with_text(tune: Callable[..., Any]) -> Callable[..., Any]:
    """SignRound's tuning of a block, on both streams joined along the tokens.

    The text stream is scaled to the image stream's mean square, so that neither drowns the other.
    The last block is left alone: nothing reads the text that leaves it.
    """

    def quantize_block(
        self: Any,
        block: Any,
        fp_inputs: Any,
        input_others: Any,
        fp_outputs: Any,
        *rest: Any,
        **options: Any,
    ) -> Any:
        runner = self.block_forward
        reference = runner.last_output_dict or {}
        context = rest[1] if len(rest) > 1 else options["block_ctx"]
        last = context.block_index == context.block_cnt - 1
        if last or TEXT not in reference or reference["hidden_states"] is not fp_outputs:
            return tune(self, block, fp_inputs, input_others, fp_outputs, *rest, **options)
        scale = _balance(fp_outputs, reference[TEXT])
        joined = [_joined(*pair, scale) for pair in zip(fp_outputs, reference[TEXT], strict=True)]
        with _joining(runner, scale):
            return tune(self, block, fp_inputs, input_others, joined, *rest, **options)

    return quantize_block


@contextmanager
def _joining(runner: Any, scale: float) -> Iterator[None]:
    """Let the runner return both streams, as the loss is to see them."""
    forward = runner.forward

    def both(*arguments: Any, **options: Any) -> Any:
        image = forward(*arguments, **options)
        return _joined(image, runner.last_output_dict[TEXT], scale)

    runner.forward = both
    try:
        yield
    finally:
        del runner.forward


def _balance(image: list[Any], text: list[Any]) -> float:
    def mean_square(stream: list[Any]) -> float:
        return sum(float(one.float().square().mean()) for one in stream) / len(stream)

    return (mean_square(image) / max(mean_square(text), 1e-12)) ** 0.5


def _joined(image: Any, text: Any, scale: float) -> Any:
    import torch

    return torch.cat([image.float(), text.float() * scale], dim=1)
