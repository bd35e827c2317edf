"""How much memory each rank needs: an estimate, from sizes alone.

Weights are exact up to what kernels repack. Activations follow the formulas below, with constants
fitted to peaks on H200s (docs/results/speed.md): FLUX.1-dev and Qwen-Image at 1024 x 1024 in six
precisions, alone and up to 16 at a time, Wan2.2 TI2V-5B at 832 x 480 x 49, and the embedded model.
T2V-A14B was met to 2 % without a fit. tests/serve/test_plan_measured.py holds single requests to
3 % and several at a time to 5 %. Other sizes are extrapolated, so leave a margin.
"""

from __future__ import annotations

from functools import cache, partial
from math import ceil

from workbench.serve.plan_facts import Facts
from workbench.specs import Parallelism, Sampling
from workbench.zoo.component_configs import Vae
from workbench.zoo.presets import inside_blocks

GIB = 2**30
CONTEXT = 840 * 2**20
"""Bytes that the CUDA context and the libraries' handles take of each GPU."""
COMMUNICATION = 700 * 2**20
"""Bytes that each of several ranks takes besides, for NCCL and the buffers of reductions.

Of two H200s, the same under tensor parallelism and CFG-parallel.
"""
WORKSPACE = 256 * 2**20
"""Bytes that the allocator holds besides: workspaces of the kernels, blocks that are partly used.

Of the embedded model's 414 MiB on one H200 (docs/results/README.md) the formulas explain 46.
"""
TEXT_TOKENS = 512
"""Tokens of a prompt, whole on every rank; long prompts of some families have twice as many."""
RESIDUAL = 6
"""Copies of the hidden states live in a block: stream, norm, modulated, output, gated, sum."""
ATTENTION = 4
"""Of one rank's heads: queries, keys, values, output. Ulysses holds them twice, to exchange them.

The scores themselves are never stored: every backend works on tiles.
"""
FEED_FORWARD = 2
"""Of the inner width: before and after the activation."""
DECODER, CAUSAL_DECODER, SHORTCUT = 9, 12, 3
"""Copies of the map that the last stage of the VAE takes, at full resolution, while it decodes.

Of the allocator's peak: a decoder of pictures alone uses half of it at once. Causal convolutions
keep their inputs for the next frames, also of a single picture. Shortcuts around stages are more.
"""
CHANGING = 2
"""Times what a batch of stepped requests uses, the allocator holds: perhaps because requests come
and go, and blocks for a batch of one size are little good for another.

Of Qwen-Image with 4, 8 and 16 in flight on H200s. With 16 in BF16, in batches of 16, 15 and 1, it
used 5.1 GiB besides the weights, and held 10.2.
"""
FURTHER = 11 / 12
"""Of what the VAE takes to decode the first picture of a batch, what each further one does.

Of FLUX.1-dev with 4, 8 and 16 in flight on H200s, in five precisions; taken for other VAEs as well.
"""
_COLOURS = 3
ACTIVATIONS = "activations"
Memory = dict[str, tuple[int, ...]]
"""Component -> bytes on each rank; ``activations`` and ``context`` besides the weights."""


def tokens_of(vae: Vae, sampling: Sampling) -> int:
    """Length of the sequence of a picture or a video, text left out.

    A token is a patch of 2 by 2 latents of one latent frame, in every family that we know.

    Args:
        vae: Of the model.
        sampling: Height and width in pixels, 1024 where unset; frames, 1 where unset.
    """
    pixels = 2 * vae.spatial
    height, width = sampling.height or 1024, sampling.width or 1024
    frames = ((sampling.num_frames or 1) - 1) // vae.temporal + 1
    return ceil(height / pixels) * ceil(width / pixels) * frames


def weights_of(facts: Facts, tensor_ranks: int) -> dict[str, int]:
    """Component -> bytes on one rank of so many.

    Column- and row-parallel linears are divided; norms, embeddings, modulation and what else the
    engine builds as ``ReplicatedLinear`` are not, and no more are most text encoders and the VAE.
    """
    sizes = dict(facts.whole)
    for name, divided in facts.divided.items():
        sizes[name] += -(-divided // tensor_ranks)
    for part in facts.parts:
        sizes[part.component] += part.number * (-(-part.divided // tensor_ranks) + part.whole)
    return sizes


class Estimate:
    """Memory of one model at one sampling, layout by layout; what repeats is worked out once.

    Args:
        facts: Of the model.
        sampling: Size of what is drawn.
        on_cpu: Whether ranks are processes on a CPU, without a context.
        batch: Pictures drawn together, and decoded together.
        stepped: Whether the engine schedules single steps: it then decodes one by one.
    """

    def __init__(
        self,
        facts: Facts,
        sampling: Sampling,
        *,
        on_cpu: bool,
        batch: int = 1,
        stepped: bool = False,
    ) -> None:
        self.facts, self.sampling, self.on_cpu = facts, sampling, on_cpu
        self.batch, self.stepped = batch, stepped
        self.tokens = tokens_of(facts.vae, sampling)
        self._weights = cache(partial(weights_of, facts))
        self._width, self._divided, self._whole = _widths(facts)
        self._maps, self._picture = _decoded(facts, sampling)

    def memory(self, layout: Parallelism) -> Memory:
        """Component -> bytes on each rank, at the peak of a request.

        Denoising and decoding follow one another, so ``activations`` is the larger of the two.

        Args:
            layout: A valid one, or its numbers mean nothing.
        """
        ranks = layout.world_size
        first = self.fullest(layout)
        return {
            **{name: (size,) * ranks for name, size in first.items()},
            ACTIVATIONS: tuple(self._drawing(layout, size) for size in self.decoding(layout)),
        }

    def fullest(self, layout: Parallelism) -> dict[str, int]:
        """Component -> bytes on rank 0, which needs most: it holds the picture.

        Args:
            layout: A valid one, or its numbers mean nothing.
        """
        return {
            **self._weights(layout.tensor_parallel_size),
            ACTIVATIONS: self._drawing(layout, self._decoding(layout)),
            "context": 0 if self.on_cpu else _besides(layout.world_size),
        }

    def denoising(self, layout: Parallelism) -> int:
        """Bytes of activations while a block runs on one rank; the two branches run in turn.

        Ulysses and ring divide the tokens, tensor parallelism heads and inner width.
        """
        size, width = layout.tensor_parallel_size, self._width
        mine = ceil(self.tokens / (layout.ulysses_degree * layout.ring_degree)) + TEXT_TOKENS
        attention = ATTENTION * width // size * (2 if layout.ulysses_degree > 1 else 1)
        inner = FEED_FORWARD * max(self._divided // size, self._whole)
        return mine * self.facts.element * (RESIDUAL * width + max(attention, inner))

    def decoding(self, layout: Parallelism) -> tuple[int, ...]:
        """Bytes on each rank while the VAE decodes one picture.

        ``DECODER`` or ``CAUSAL_DECODER`` maps of its widest channels at full size, ``SHORTCUT``
        more of a residual one, as many frames at once as one latent frame gives; patches divide
        them. The picture itself lies whole on rank 0, and on all ranks where each decodes
        everything.
        """
        ranks, patches = layout.world_size, layout.vae_patch_parallel_size
        first = self._decoding(layout)
        if patches == 1:
            return (first,) * ranks
        maps = self._maps // patches
        return (first, *(maps if rank < patches else 0 for rank in range(1, ranks)))

    def _decoding(self, layout: Parallelism) -> int:
        return self._maps // layout.vae_patch_parallel_size + self._picture

    def _drawing(self, layout: Parallelism, decoding: int) -> int:
        """The larger of denoising and decoding, of all pictures that are drawn together."""
        denoising = self.denoising(layout)
        if not self.stepped:
            together = round((1 + FURTHER * (self.batch - 1)) * decoding)
            return max(self.batch * denoising, together)
        batch = self.batch * (CHANGING if self.batch > 1 else 1)
        return max(batch * denoising, decoding)


def _decoded(facts: Facts, sampling: Sampling) -> tuple[int, int]:
    """Bytes of the maps of the VAE's last stage, and of the picture or the video."""
    frames = sampling.num_frames or 1
    pixels = (sampling.height or 1024) * (sampling.width or 1024)
    copies = (CAUSAL_DECODER if facts.vae.causal else DECODER) + SHORTCUT * facts.vae.residual
    one = pixels // facts.vae.patch**2 * facts.vae.widest * facts.element
    maps = copies * one * min(frames, facts.vae.temporal)
    return maps, pixels * frames * _COLOURS * facts.element


def _besides(ranks: int) -> int:
    """Bytes of a GPU that hold neither weights nor activations."""
    return CONTEXT + WORKSPACE + (COMMUNICATION if ranks > 1 else 0)


def _widths(facts: Facts) -> tuple[int, int, int]:
    """Channels of the hidden states, and of the widest inputs back to them, divided and whole."""
    inside = [part for part in facts.parts if inside_blocks(facts.preset, part.name)]
    rows = [p for p in inside if p.share and p.share.side == "input channels"]
    width = max((p.outputs for p in rows), default=max(p.inputs for p in facts.parts))
    whole = [p.inputs for p in inside if p.share is None and p.outputs == width < p.inputs]
    return width, max((p.inputs for p in rows), default=0), max(whole, default=0)
