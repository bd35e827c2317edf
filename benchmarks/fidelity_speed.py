"""PSNR, SSIM and FLIP of many pairs against PSNR and SSIM by scikit-image, in one run.

    python benchmarks/fidelity_speed.py [--pairs 100] [--side 1024] [--block 10]

Both take the same pairs in blocks, in turn, so that what else the machine does meets both. Ours
runs on every core; scikit-image on one, as it does by itself, pair by pair. Prints seconds a pair
by the clock and of the processor (which other load changes less), their ratios and the peak memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

import numpy as np

from workbench.eval.metrics import score_pairs

METRICS = ("psnr_db", "ssim", "flip")
Pair = tuple[np.ndarray, np.ndarray]


def drawn(side: int, seed: int) -> Pair:
    """Smooth waves, and the same with noise; uint8 [side, side, 3]."""
    source = np.random.default_rng(seed)
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    waves = [np.sin(2 * np.pi * (x * a + y * b)) for a, b in source.uniform(1, 30, (3, 2))]
    reference = 127 + 100 * np.stack(waves, axis=-1)
    candidate = reference + source.normal(0, 6, reference.shape).astype(np.float32)
    return tuple(np.clip(p, 0, 255).astype(np.uint8) for p in (reference, candidate))


def ours(pairs: list[Pair]) -> list[tuple[float, float]]:
    """PSNR and SSIM; FLIP is computed too."""
    return [(s.values["psnr_db"], s.values["ssim"]) for s in score_pairs(pairs, METRICS)]


def theirs(pairs: list[Pair]) -> list[tuple[float, float]]:
    """PSNR and SSIM."""
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    options = {"channel_axis": 2, "gaussian_weights": True, "use_sample_covariance": False}
    return [
        (
            peak_signal_noise_ratio(a, b, data_range=255),
            structural_similarity(a, b, data_range=255, sigma=1.5, **options),
        )
        for a, b in pairs
    ]


def main(number: int, side: int, block: int) -> None:
    """Warm up, then measure block by block, the order swapped every time."""
    for measure in (ours, theirs):
        measure([drawn(64, 0)] * 2)
    taken = {ours: np.zeros(2), theirs: np.zeros(2)}
    for first in range(0, number, block):
        pairs = [drawn(side, seed) for seed in range(first, min(first + block, number))]
        found = {}
        for measure in (ours, theirs) if first // block % 2 == 0 else (theirs, ours):
            began = now()
            found[measure] = measure(pairs)
            taken[measure] += now() - began
        np.testing.assert_allclose(found[ours], found[theirs], atol=1e-6)
    cores = os.cpu_count() or 1
    print(f"{number} pairs of {side} x {side}, {cores} cores; seconds a pair by the clock (of CPU)")
    for name, measure in (
        ("PSNR, SSIM, FLIP, workbench", ours),
        ("PSNR, SSIM, skimage", theirs),
    ):
        print(f"{name:32}{taken[measure][0] / number:.3f} ({taken[measure][1] / number:.3f})")
    clock, processor = taken[theirs] / taken[ours]
    print(f"ratio: {clock:.2f}; of CPU, times the cores: {processor * cores:.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory, both and all pairs of a block: {peak:.2f} GiB")


def now() -> np.ndarray:
    """Seconds by the clock, and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--block", type=int, default=10)
    options = parser.parse_args()
    main(options.pairs, options.side, options.block)
