"""One model at every precision, alone and under load: latency, throughput, memory, checkpoint size.

    python benchmarks/regimes.py Qwen-Image --steps 20 --load-steps 4 --concurrency 1 4 8

MODEL is one of the big shapes, which is built with random weights, or what workbench.launch takes.
Prints a row a measurement, writes a card of all of them, and goes on after a precision that this
machine refuses. ``--prepare`` quantizes and stops.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import speed_cards

import workbench as wb
from workbench import store
from workbench.errors import WorkbenchError
from workbench.eval.speed import speed_table
from workbench.eval.speed_spread import CERTAIN
from workbench.serve import omni
from workbench.speed import Benchmark
from workbench.zoo.shapes import SHAPES, build_shape

PROMPT = "A ceramic teapot on a wooden table"  # the first article's
SHOWN = ["precision", "layout", "compiled", "concurrency", "latency_s", "pictures_per_s",
         "mean_batch", "weight_bytes", "reserved_peak_bytes", "cold_s"]  # fmt: skip
RTN = wb.QuantRecipe(method="auto-round", scheme="W4A16")
DYNAMIC = wb.QuantRecipe(method="modelopt", scheme="FP8_PER_CHANNEL_PER_TOKEN", all_linears=True)
# Attention in FP8, all else in NVFP4, by hand: random weights have no sensitivity, and no ranges
# that a larger picture would find.
MIXED = wb.QuantRecipe(
    method="modelopt",
    scheme="MIXED",
    layer_schemes={"attn": "FP8"},
    calibration=wb.Calibration(prompts=[PROMPT], num_inference_steps=1, height=256, width=256),
)


def ways(options: argparse.Namespace) -> dict[str, dict[str, Any] | wb.QuantRecipe]:
    """Name -> options of a launch, or the recipe of a checkpoint; in the order of Table 1."""
    every: dict[str, dict[str, Any] | wb.QuantRecipe] = {
        "BF16": {},
        "FP8": {"quantization": "fp8"},
        "INT8": {"quantization": "int8"},
        "ModelOpt": DYNAMIC,
        "mixed": MIXED,
        "W4A16": RTN,
    }
    return {name: way for name, way in every.items() if not options.only or name in options.only}


def main() -> None:
    """Measure, print, write the card."""
    options = _options()
    pd.set_option("display.width", 250)
    omni.note_unused()  # before a shape is built or quantized on the GPU
    model = _model(options)
    done: list[Benchmark] = []
    plans: dict[str, dict[str, Any]] = {}
    watched: list[dict[str, Any]] = []
    for name, way in ways(options).items():
        try:
            checkpoint = wb.quantize(model, way) if isinstance(way, wb.QuantRecipe) else model
            if options.prepare:
                continue
            launched = {} if isinstance(way, wb.QuantRecipe) else way
            for one in _measured(checkpoint, launched, options, watched):
                together = one.spec.workload.concurrency
                plans[one.key] = _planned(checkpoint, launched, options, together)
                done.append(one)
                print(speed_table([one])[SHOWN].to_string(header=len(done) == 1), flush=True)
                _write(done, plans, watched, options)
            if options.kernels and done:
                _write(done, plans, watched, options)
        except WorkbenchError:
            print(name, "is refused here:", traceback.format_exc(limit=0).strip(), flush=True)


def _measured(
    model: Any, way: dict[str, Any], options: argparse.Namespace, watched: list[dict[str, Any]]
) -> Iterator[Benchmark]:
    """Each benchmark of one launch; what its kernels took goes to ``watched``."""
    loaded = wb.Sampling(num_inference_steps=options.load_steps, **_drawn(options))
    with wb.launch(model, **way, **_launch(options)) as engine:
        print(engine.audit, f"load {engine.load_s:.1f} s", flush=True)
        for concurrency in options.concurrency:
            yield wb.benchmark(
                engine,
                wb.Workload(
                    PROMPT,
                    seeds=range(42, 42 + _requests(options, concurrency)),
                    sampling=loaded,
                    concurrency=concurrency,
                    requests=_requests(options, concurrency),
                ),
                warmups=concurrency,
                stages=concurrency == 1,
            )
        if options.steps:
            alone = loaded.but(num_inference_steps=options.steps)
            workload = wb.Workload(PROMPT, seeds=(42,), sampling=alone, requests=options.alone)
            yield wb.benchmark(engine, workload, warmups=1, stages=False)
        if options.kernels:
            watched.append(_kernels(engine, loaded))


def _requests(options: argparse.Namespace, concurrency: int) -> int:
    """As many full rounds as a 95 % interval takes, or as ``--most`` leaves; one at least."""
    asked = options.requests if concurrency > 1 else options.alone
    wanted = max(asked, options.rounds * concurrency)
    if options.most is None or wanted <= options.most:
        return wanted
    return max(1, options.most // concurrency) * concurrency


def _kernels(engine: Any, sampling: wb.Sampling) -> dict[str, Any]:
    times = engine.kernel_times(PROMPT, seed=42, sampling=sampling)
    seen = speed_cards.kernels(engine, times, sampling.num_inference_steps)
    shares = ", ".join(f"{kind} {share:.1%}" for kind, share in seen["shares"].items())
    print(f"of {seen['wall_s']:.3f} s: idle {seen['idle']:.1%}, {shares}", flush=True)
    print(times.head(speed_cards.LONGEST).to_string(max_colwidth=110), flush=True)
    return seen


def _planned(
    model: Any, way: dict[str, Any], options: argparse.Namespace, together: int
) -> dict[str, Any]:
    """Bytes by component on each rank, as the planner estimates them."""
    layout = _launch(options)["parallelism"]
    sampling = wb.Sampling(**_drawn(options))
    plan = wb.plan(
        model,
        gpus=layout.world_size,
        gpu_memory_gib=140,
        sampling=sampling,
        max_num_seqs=together,
        step_execution=options.step_execution,
        **way,
    )
    return {name: list(ranks) for name, ranks in plan.layout(layout).memory.items()}


def _write(
    done: list[Benchmark],
    plans: dict[str, dict[str, Any]],
    watched: list[dict[str, Any]],
    options: argparse.Namespace,
) -> None:
    folder = store.root() / "cards"
    store.make_folder(folder)
    store.write_json(folder / f"{options.card}.json", speed_cards.card(done, plans, watched))


def _model(options: argparse.Namespace) -> str:
    if options.model not in SHAPES:
        return options.model
    folder = Path(options.folder) / options.model
    if not (folder / "model_index.json").is_file():
        import torch

        on = "cuda" if torch.cuda.is_available() else "cpu"
        build_shape(options.model, folder, layers=options.layers, on=on)
    return str(folder)


def _drawn(options: argparse.Namespace) -> dict[str, int]:
    size = {"height": options.height, "width": options.width or options.height}
    return {name: value for name, value in {**size, "num_frames": options.frames}.items() if value}


def _launch(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "parallelism": wb.Parallelism(
            tensor_parallel_size=options.tp,
            cfg_parallel_size=options.cfg,
            ulysses_degree=options.ulysses,
        ),
        "enforce_eager": not options.compiled,
        "max_num_seqs": max(options.concurrency, default=1),
        "request_batch_max_wait_ms": options.wait_ms,
        "step_execution": options.step_execution,
        "attention_backend": options.attention,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--folder", default="/tmp/shapes", help="where a shape is built")
    parser.add_argument("--layers", type=int, help="blocks of a shape, to try things out")
    parser.add_argument("--only", nargs="*", help="names of precisions")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--steps", type=int, default=20, help="of the latency; 0 leaves it out")
    parser.add_argument("--alone", type=int, default=CERTAIN, help="requests of the latency")
    parser.add_argument(
        "--rounds", type=int, default=CERTAIN, help="of a load, at least: fewer have no interval"
    )
    parser.add_argument("--load-steps", type=int, default=4, help="of a request under load")
    parser.add_argument("--concurrency", type=int, nargs="*", default=[1, 4, 8])
    parser.add_argument("--requests", type=int, default=16, help="of a load, at least")
    parser.add_argument("--most", type=int, help="requests of a load, at most, in full rounds")
    parser.add_argument("--height", type=int, help="in pixels")
    parser.add_argument("--width", type=int, help="in pixels; the height, if left out")
    parser.add_argument("--frames", type=int, help="of a video")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--cfg", type=int, default=1)
    parser.add_argument("--ulysses", type=int, default=1)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--step-execution", action="store_true")
    parser.add_argument("--attention")
    parser.add_argument("--wait-ms", type=float, default=50.0)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--card", default="regimes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
