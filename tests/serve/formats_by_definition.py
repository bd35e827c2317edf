"""Number formats by their definitions: tables of all values, no code of the workbench.

In the dtype of the input: inputs of few bits lie on ties often, and there the quotient's own
rounding decides, so what is compared with float32 arithmetic takes float32.
"""

import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E4M3 = np.array(  # codes 0 to 126; 127 is NaN
    [m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7) for e in range(16)
     for m in range(8)][:127]
)  # fmt: skip


def nearest(values, table):
    """Nearest of a table of magnitudes, ties to the even code, beyond its end the last."""
    size = np.minimum(np.abs(values), table[-1])
    above = np.searchsorted(table, size).clip(1)
    low, high = table[above - 1], table[above]
    up = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    return (np.sign(values) * np.where(up, high, low)).astype(values.dtype)


def blocks(values, size):
    return values.reshape(*values.shape[:-1], -1, size)


def quantized_nvfp4(x, scale):
    parts = blocks(x, 16)
    step = nearest(np.abs(parts).max(-1, keepdims=True) / 6 / scale, E4M3) * scale
    safe = np.where(step == 0, 1, step)
    return np.where(step == 0, 0, nearest(parts / safe, E2M1) * safe).reshape(x.shape)


def quantized_mxfp8(x):
    parts = blocks(x, 32)
    largest = np.maximum(np.abs(parts).max(-1, keepdims=True), 1e-37)
    scale = 2.0 ** np.ceil(np.log2(largest / 448))
    return (nearest(parts / scale, E4M3) * scale).reshape(x.shape)


def quantized_mxfp4(x):
    parts = blocks(x, 32)
    largest = np.maximum(np.abs(parts).max(-1, keepdims=True), 1e-37)
    scale = 2.0 ** (np.floor(np.log2(largest)) - 2)
    return (nearest(parts / scale, E2M1) * scale).reshape(x.shape)


def quantized_fp8(x, scale=None, axis=None):
    if scale is None:
        scale = np.maximum(np.abs(x).max(axis, keepdims=True) / 448, 1e-12)
    return nearest(x / scale, E4M3) * scale


def quantized_int8(x):
    scale = np.maximum(np.abs(x).max(-1, keepdims=True) / 127, 1e-12)
    return np.round(x / scale) * scale
