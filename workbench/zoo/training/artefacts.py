"""What a training command leaves behind: weights, a log, contact sheets."""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

SHARD_BYTES = 14 << 20
"""Files that come back from the lent GPU must stay below 16 MiB."""


def save_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write a state dict in bf16 as `path`, or if large as shards `NAME-1.safetensors` ..."""
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, value in state.items():
        value = value.detach().to("cpu", torch.bfloat16).contiguous()
        if shards[-1] and filled + value.nbytes > SHARD_BYTES:
            shards.append({})
            filled = 0
        shards[-1][name] = value
        filled += value.nbytes
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, shard in enumerate(shards, 1):
        place = path if len(shards) == 1 else path.with_stem(f"{path.stem}-{number}")
        save_file(shard, place, metadata={"format": "pt"})


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read what `save_weights` wrote at the same path, bf16 on the CPU."""
    shards = [path] if path.exists() else sorted(path.parent.glob(f"{path.stem}-*.safetensors"))
    if not shards:
        raise FileNotFoundError(
            f"No weights at {path}, nor shards beside it; run the training command first."
        )
    return {name: value for shard in shards for name, value in load_file(shard).items()}


def write_png(path: Path, pixels: Tensor) -> None:
    """Write uint8 [H, W, 3] as a PNG (format: https://www.w3.org/TR/png)."""
    height, width, _ = pixels.shape
    rows = torch.cat(
        [pixels.new_zeros(height, 1), pixels.reshape(height, -1)], dim=1
    )  # filter byte 0 per row
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(rows.numpy().tobytes(), 6)),
        (b"IEND", b""),
    )
    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in chunks:
            file.write(
                struct.pack(">I", len(data))
                + kind
                + data
                + struct.pack(">I", zlib.crc32(kind + data))
            )


def write_sheet(path: Path, pictures: Tensor, columns: int = 8) -> None:
    """Write pictures [N, 3, H, W] in [-1, 1] as a grid; an incomplete last row is dropped."""
    columns = min(columns, len(pictures))
    rows = len(pictures) // columns
    grid = (
        pictures[: rows * columns]
        .float()
        .cpu()
        .unflatten(0, (rows, columns))
        .permute(0, 3, 1, 4, 2)
    )
    pixels = (grid.clamp(-1, 1) * 127.5 + 127.5).round().byte()
    write_png(path, pixels.reshape(rows * pixels.shape[1], columns * pixels.shape[3], 3))


class Log:
    """Prints progress with elapsed seconds and keeps it as `log.json`."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self.path, self.started = folder / "log.json", time.perf_counter()
        self.facts: dict[str, Any] = {"torch": torch.__version__, "device": name}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def seconds(self) -> float:
        """Since the log was opened."""
        return time.perf_counter() - self.started

    def say(self, text: str) -> None:
        """Print a line."""
        print(f"{self.seconds:7.1f} s  {text}", flush=True)

    def note(self, **facts: Any) -> None:
        """Add facts and rewrite the file."""
        self.facts |= facts | {"seconds": round(self.seconds, 1)}
        self.path.write_text(json.dumps(self.facts, indent=1) + "\n")
