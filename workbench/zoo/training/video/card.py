"""The model card of the video model, filled from what training measured."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from workbench import store
from workbench.zoo.training.captions import COLOURS
from workbench.zoo.training.video.build import BACKGROUNDS, NAMED, OBJECTS, held_out_pairs
from workbench.zoo.training.video.corpus import HEADS
from workbench.zoo.training.video.motions import MOTIONS
from workbench.zoo.training.video.recipe import FPS, VideoArchitecture, VideoRecipe

SOURCE = (
    "Noto Emoji, (c) Google Inc., from Debian fonts-noto-color-emoji 2.042-0+deb12u1 "
    "(artwork Apache-2.0, font OFL-1.1)"
)
TEMPLATE = Path(__file__).with_name("card.md")
WEIGHTS = "*/*.safetensors"


def write_card(folder: Path, shape: VideoArchitecture, dit_log: Path, vae_log: Path) -> None:
    """Write `card.json` and `README.md`, and put the logs into `training/`.

    Args:
        folder: The exported pipeline, weights in place.
        shape: What was trained.
        dit_log: `log.json` of the dit command; `evaluation.json` lies beside it.
        vae_log: `log.json` of the vae command.
    """
    files = {"dit": dit_log, "vae": vae_log, "evaluation": dit_log.with_name("evaluation.json")}
    logs = {name: json.loads(file.read_text()) for name, file in files.items()}
    (folder / "training").mkdir(exist_ok=True)
    for name, content in logs.items():
        store.write_bytes(folder / f"training/{name}.json", f"{json.dumps(content)}\n".encode())
    card = _card(folder, shape, logs["dit"], logs["vae"])
    store.write_json(folder / "card.json", card)
    store.write_bytes(folder / "README.md", _text(folder, card, shape, logs["vae"]).encode())


def _card(
    folder: Path, shape: VideoArchitecture, dit: Mapping[str, Any], vae: Mapping[str, Any]
) -> dict[str, Any]:
    recipe = VideoRecipe(**dit["recipe"])
    return {
        "sampling": {
            "height": shape.side, "width": shape.side, "num_frames": shape.frames, "fps": FPS,
            "num_inference_steps": recipe.sampling_steps, "guidance_scale": recipe.guidance,
            "negative_prompt": "",
        },
        "license": "Apache-2.0",
        "data": _data(),
        "training": {
            "device": dit["device"], "torch": dit["torch"],
            "vae_steps": vae["recipe"]["vae_steps"], "vae_seconds": vae["seconds"],
            "polish_steps": vae["recipe"]["polish_steps"],
            "dit_steps": dit["steps"], "dit_batch": dit["batch"], "dit_seconds": dit["seconds"],
            "dit_final_loss": dit["loss"][-1],
        },
        "reconstruction_psnr_db": vae["psnr_db"] | {"clips": vae["clips"]},
        "judged": dit["evaluation"] | {"prompts_per_split": recipe.judged},
        "parameters": _parameters(folder),
        "sha256": {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.glob(WEIGHTS))
        },
    }  # fmt: skip


def _data() -> dict[str, Any]:
    places, motions = (round(float(pairs.mean()), 3) for pairs in held_out_pairs())
    return {
        "objects": len(OBJECTS),
        "backgrounds": len(BACKGROUNDS),
        "colours": len(COLOURS),
        "motions": len(MOTIONS),
        "held_out": {"object x background": places, "object x motion": motions},
        "source": SOURCE,
    }


def _parameters(folder: Path) -> dict[str, int]:
    """Numbers in the weights of each component, from the files' headers."""
    found: dict[str, int] = {}
    for file in sorted(folder.glob(WEIGHTS)):
        with safe_open(file, "pt") as weights:
            names = weights.keys()
            sizes = [math.prod(weights.get_slice(name).get_shape()) for name in names]
        found[file.parent.name] = found.get(file.parent.name, 0) + sum(sizes)
    return found


def _text(
    folder: Path, card: Mapping[str, Any], shape: VideoArchitecture, vae: Mapping[str, Any]
) -> str:
    """`card.md` with its fields filled: every figure comes from the card or from the code."""
    weights = {name: (folder / name).stat().st_size for name in card["sha256"]}
    held_out = card["data"]["held_out"]
    fields = {
        **card["parameters"], **card["training"], **card["data"],
        "shape": shape, "sampling": card["sampling"], "psnr": card["reconstruction_psnr_db"],
        "by_frame": ", ".join(map(str, vae["psnr_db_by_frame"])),
        "prompts_per_split": card["judged"]["prompts_per_split"],
        "heads": " | ".join(HEADS), "dashes": "---|" * len(HEADS),
        "judged": _judged(card["judged"]), "things": ", ".join(OBJECTS),
        "moves": "\n".join(f"| {m.name} | {', '.join(filter(None, m.verbs))} |" for m in MOTIONS),
        "prompts": "\n".join(f'- "{prompt}"' for prompt in NAMED),
        "held_out_places": 100 * held_out["object x background"],
        "held_out_motions": 100 * held_out["object x motion"],
        "megabytes": round(sum(weights.values()) / 1e6, 1),
        "tokens": json.loads((folder / "text_encoder/config.json").read_text())["vocab_size"],
        "files": "\n".join(
            f"| `{name}` | {size:,} | `{card['sha256'][name]}` |" for name, size in weights.items()
        ),
    }  # fmt: skip
    return TEMPLATE.read_text().format(**fields)


def _judged(found: Mapping[str, Any]) -> str:
    rows = {kind: row for kind, row in found.items() if isinstance(row, dict)}
    return "\n".join(
        f"| {kind} | " + " | ".join(f"{100 * row[head]:.1f} %" for head in HEADS) + " |"
        for kind, row in rows.items()
    )
