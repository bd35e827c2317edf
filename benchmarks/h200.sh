#!/usr/bin/env bash
# What docs/results has from GPUs, measured again: bash benchmarks/h200.sh GPUS OUT GROUP...
#
#     bash benchmarks/h200.sh 0 OUT qwen overhead & bash benchmarks/h200.sh 1 OUT wan ti2v a14b & wait
#     bash benchmarks/h200.sh 0 OUT qwen-checkpoints qwen-compiled & bash benchmarks/h200.sh 1 OUT flux flux-compiled & wait
#     bash benchmarks/h200.sh 0,1 OUT layouts layouts-8bit flux-layouts
#
# A step that fails or outlasts its limit leaves the others alone, and the script ends with 1. Logs
# and run cards go to OUT; what is finished lies in WORKBENCH_RUNS, so the same line again goes on.
# Shapes are built in /tmp/shapes: qwen and layouts 41 GB, overhead and flux 24 GB, ti2v 13 GB,
# a14b 57 GB; W4A16 adds a third of each, ModelOpt FP8 a half.
set -u
export CUDA_VISIBLE_DEVICES=$1 WORKBENCH_RUNS=${WORKBENCH_RUNS:-runs} MASTER_PORT=$((29500 + 100 * ${1:0:1}))
OUT=$(realpath -m "$2") PYTHON=${PYTHON:-.venv/bin/python}
FAILED=0
shift 2
cd "$(dirname "$0")/.." && mkdir -p "$OUT"

# step NAME SECONDS SCRIPT ARGUMENTS...
step() {
    local name=$1 limit=$2 began=$SECONDS ended
    shift 2
    MASTER_PORT=$((MASTER_PORT + 1))
    timeout "$limit" "$PYTHON" "benchmarks/$@" > "$OUT/$name.txt" 2> "$OUT/$name.log"
    ended=$?
    echo "$name: exit $ended, $((SECONDS - began)) s" | tee -a "$OUT/steps.txt"
    [ $ended = 0 ] || FAILED=1
    if [ -f "$WORKBENCH_RUNS/cards/$name.json" ]; then cp "$WORKBENCH_RUNS/cards/$name.json" "$OUT/"; fi
}
# shape NAME SECONDS MODEL ARGUMENTS...: a row a measurement, and a card of all of them
shape() { step "$1" "$2" regimes.py "${@:3}" --card "$1"; }

QWEN="Qwen-Image --steps 20 --load-steps 2 --step-execution"
FLUX="FLUX.1-dev --steps 28 --load-steps 2"
MANY="--concurrency 1 4 8 16"
for group in "$@"; do
    case $group in
        qwen) shape qwen 1200 $QWEN $MANY --only BF16 FP8 INT8 ;;
        qwen-checkpoints) shape qwen-checkpoints 900 $QWEN $MANY --only ModelOpt W4A16 ;;
        qwen-compiled) shape qwen-compiled 1500 $QWEN --concurrency 8 --only BF16 FP8 INT8 ModelOpt W4A16 --compiled --kernels ;;
        overhead)
            shape flux-built 200 FLUX.1-dev --prepare --only none
            step overhead 400 recording_overhead.py /tmp/shapes/FLUX.1-dev --rounds 60 --steps 4 --compiled --card overhead
            ;;
        wan)
            for task in "wan-t2v" "wan-i2v --first-frames"; do
                step ${task%% *} 500 population.py embedded:wan --seeds 4 --no-diffusers --backends TORCH_SDPA --card $task
            done
            ;;
        ti2v) shape ti2v 600 Wan2.2-TI2V-5B --load-steps 4 --concurrency 1 --only BF16 FP8 W4A16 ;;
        a14b) shape a14b 1200 Wan2.2-T2V-A14B --steps 0 --load-steps 2 --concurrency 1 --only BF16 FP8 W4A16 ;;
        layouts)
            shape qwen-tp2 500 $QWEN --concurrency 8 --only BF16 W4A16 --tp 2
            shape qwen-cfg2 400 $QWEN --concurrency --only BF16 W4A16 --cfg 2
            ;;
        layouts-8bit) shape qwen-tp2-8bit 700 $QWEN --alone 3 --concurrency 8 --only INT8 ModelOpt FP8 --tp 2 ;;
        layouts-load) shape qwen-tp2-load 1200 $QWEN --alone 3 --concurrency 1 4 16 --only BF16 INT8 W4A16 FP8 ModelOpt mixed --tp 2 ;;
        qwen-mixed) shape qwen-mixed 700 $QWEN $MANY --most 48 --only mixed ;;
        flux) shape flux 1800 $FLUX $MANY --most 48 --kernels ;;
        flux-compiled) shape flux-compiled 900 $FLUX --concurrency 8 --only BF16 FP8 INT8 W4A16 --compiled --kernels ;;
        flux-layouts) shape flux-tp2 900 $FLUX --alone 3 --concurrency 8 --only BF16 FP8 INT8 ModelOpt W4A16 --tp 2 ;;
        flux-layouts-load) shape flux-tp2-load 1200 $FLUX --alone 3 --concurrency 1 4 16 --tp 2 ;;
        *) echo "no group $group; the cases of $0 are all there are" >&2; exit 2 ;;
    esac
done
exit $FAILED
