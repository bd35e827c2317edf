"""Every recipe of the workbench on one model: quantize, lint, launch, audit, generate, compare.

    python benchmarks/every_recipe.py embedded:qwen-image --prompts 8 --seeds 4
    python benchmarks/every_recipe.py embedded:wan --steps 8 --only online "FP8 static" RTN

prints one table, in the order of the first article's Table 1 with AutoRound's rows after it, and
writes a run card beside the others of the run folder. A recipe that this machine refuses has a row
too, with the reason.
"""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

import workbench as wb
from workbench import store, zoo
from workbench.errors import WorkbenchError
from workbench.eval.run_card import run_card
from workbench.recipes import QuantRecipe
from workbench.records import Checkpoint
from workbench.zoo.families import family_of

PICTURES = (
    "a teapot on a wooden table", "a blue car in the snow", "a penguin on the beach",
    "a red mushroom in a forest", "a rocket in the clouds", "a yellow bus on a city street",
    "a robot under a starry night sky", "a pumpkin on a checkered tablecloth",
)  # fmt: skip
PICTURE_CALIBRATION = (
    "a mug on a marble table", "a red truck in the city", "a white rabbit in a meadow",
    "a purple tulip in the woods", "a balloon at sunset", "a black cat on a checkered floor",
    "an orange fox on a snowy hill", "a green apple on a picnic blanket",
)  # fmt: skip
CLIPS = (
    "a soccer ball rolling to the right on grass", "a red car moving to the left on a city street",
    "a rocket rising in the clouds", "a balloon floating up slowly at sunset",
    "an apple falling on a wooden table", "a penguin coming closer in the snow",
    "a blue boat moving to the right slowly on the sea", "a robot going away on the moon",
)  # fmt: skip
CLIP_CALIBRATION = (
    "a bus moving to the right on the street", "a basketball rolling to the left on the beach",
    "a star falling in space", "a duck sliding to the left slowly on the water",
    "a yellow mushroom standing still on grass", "a truck coming closer in the desert",
    "a ghost floating up on a marble floor", "a pumpkin going away on a wooden table",
)  # fmt: skip
"""What the embedded models know: a thing, a place, and in a clip how it moves."""
MIB = 1 << 20


def prompts_of(model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Prompts to judge a model by, and others to calibrate it with."""
    videos = family_of(zoo.locate(wb.ModelRef(model))).draws_videos
    return (CLIPS, CLIP_CALIBRATION) if videos else (PICTURES, PICTURE_CALIBRATION)


def recipes(calibration: wb.Calibration, iters: int) -> dict[str, QuantRecipe]:
    """Name of the row -> recipe; all calibrate on the same prompts."""

    def modelopt(scheme: str, *, calibrated: bool = False, **more: Any) -> QuantRecipe:
        given = {"calibration": calibration} if calibrated else {}
        return QuantRecipe(method="modelopt", scheme=scheme, **given, **more)

    def autoround(scheme: str, *, calibrated: bool = False, **more: Any) -> QuantRecipe:
        given = {"calibration": calibration} if calibrated else {}
        return QuantRecipe(method="auto-round", scheme=scheme, **given, **more)

    return {
        "ModelOpt FP8 static": modelopt("FP8", calibrated=True),
        "ModelOpt FP8 per channel and token": modelopt("FP8_PER_CHANNEL_PER_TOKEN"),
        "ModelOpt FP8 dynamic, all linears": modelopt(
            "FP8_PER_CHANNEL_PER_TOKEN", all_linears=True
        ),
        "ModelOpt mixed FP8/NVFP4": modelopt("MIXED", calibrated=True, effective_bits=5.5),
        "ModelOpt NVFP4": modelopt("NVFP4", calibrated=True),
        "ModelOpt MXFP8": modelopt("MXFP8"),
        "AutoRound W4A16 RTN": autoround("W4A16"),
        "AutoRound W4A16 opt-RTN": autoround("W4A16", calibrated=True, disable_opt_rtn=False),
        "AutoRound W4A16 tuned": autoround("W4A16", calibrated=True, iters=iters),
        "AutoRound mixed W4A16/W8A16": autoround("MIXED", calibrated=True, effective_bits=5.5),
        "AutoRound W8A16": autoround("W8A16"),
        "AutoRound MXFP8": autoround("MXFP8"),
        "AutoRound MXFP4": autoround("MXFP4"),
    }


def main() -> None:
    """Run all of them and print the table."""
    options = _options()
    prompts, others = prompts_of(options.model)
    calibration = wb.Calibration(prompts=others, num_inference_steps=options.calibration_steps)
    request = {
        "prompts": prompts[: options.prompts],
        "seeds": range(options.seeds),
        "sampling": wb.Sampling(num_inference_steps=options.steps),
    }
    reference = wb.generate(options.model, **request)
    floor = wb.compare(reference, wb.generate(options.model, repeat=1, **request))
    rows, comparisons = [_row("BF16 repeat", floor)], {}
    online = {"online FP8": "fp8", "online INT8": "int8"}
    for name, one in {**online, **recipes(calibration, options.iters)}.items():
        if options.only and not any(part in name for part in options.only):
            continue
        try:
            model, launched, findings = _made(options.model, one)
            candidate = wb.generate(model, **launched, **request)
            comparison = wb.compare(reference, candidate, floor=floor)
        except WorkbenchError as error:
            rows.append({"row": name, "verdict": f"refused: {error}"})
        else:
            comparisons[name] = comparison
            rows.append({**_row(name, comparison), "lint": findings})
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    print(table.to_string(float_format="{:.4g}".format))
    card = run_card(reference, comparisons.values(), floor=floor)
    store.write_json(card.with_suffix(".rows.json"), table.to_dict("records"))
    print("run card:", card)


def _made(model: str, one: QuantRecipe | str) -> tuple[str | Checkpoint, dict[str, str], str]:
    if isinstance(one, str):
        return model, {"quantization": one}, ""
    checkpoint = wb.quantize(model, one)
    report = wb.lint(checkpoint.path)
    found = [finding for finding in report.findings if finding.severity != "note"]
    return checkpoint, {}, "clean" if not found else "; ".join(f.message for f in found)


def _row(name: str, comparison: Any) -> dict[str, Any]:
    candidate, table = comparison.candidate, comparison.table()
    audit = candidate.audit
    return {
        "row": name,
        "verdict": audit.verdict,
        "kernels": ", ".join(audit.kernels),
        "kinds": ", ".join(audit.kinds),
        "coverage": audit.coverage,
        "flops_coverage": audit.flops_coverage,
        "transformer_mib": candidate.checkpoint_bytes["transformer"] / MIB,
        "loaded_mib": audit.weight_bytes["transformer"] / MIB,
        "peak_mib": max(item.peak_memory_bytes for item in candidate) / MIB,
        "psnr_db": table["psnr_db"].median(),
        "psnr_db_min": table["psnr_db"].min(),
        "psnr_db_max": table["psnr_db"].max(),
        "ssim": table["ssim"].median(),
        "n": len(table),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="embedded:qwen-image")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--calibration-steps", type=int, default=8)
    parser.add_argument("--iters", type=int, default=200)
    parser.add_argument("--only", nargs="*", help="parts of row names")
    return parser.parse_args()


if __name__ == "__main__":
    main()
