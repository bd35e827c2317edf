import json
from functools import partial

import pytest
from PIL import Image

from workbench.errors import SpecError
from workbench.recipes import Calibration, QuantRecipe
from workbench.specs import (
    GenerateSpec,
    LaunchSpec,
    ModelRef,
    Parallelism,
    PromptSet,
    QuantizeSpec,
    Sampling,
)

MODEL = ModelRef("embedded:qwen-image")
NO_FRAMES = (0, -3, 4.5, True)
NO_RATES = (0, -1.0, 1e-5, 1001, 10_000, float("inf"), float("nan"), True)
RTN = QuantRecipe(method="auto-round", scheme="W4A16")
TUNED = QuantRecipe(
    method="auto-round", scheme="W4A16", iters=10, calibration=Calibration(prompts=("a cup",))
)
EVERY = [
    MODEL,
    RTN,
    TUNED,
    QuantizeSpec(model=MODEL, recipe=TUNED),
    Parallelism(tensor_parallel_size=2, cfg_parallel_size=2),
    LaunchSpec(model=MODEL, quantization="fp8"),
    Sampling(height=256, width=512, true_cfg_scale=4.0, negative_prompt=" "),
    PromptSet(["a cup", "eine Tasse für zwei", "一只茶壶"]),
    GenerateSpec(
        launch=LaunchSpec(model=MODEL, recipe=RTN),
        prompts=PromptSet("a cup"),
        seeds=(0, 1),
        sampling=Sampling(),
    ),
]


def kind(spec):
    return type(spec).__name__


@pytest.mark.parametrize("spec", EVERY, ids=kind)
def test_a_spec_survives_json(spec):
    back = type(spec)(**json.loads(json.dumps(spec.model_dump(mode="json"))))
    assert back == spec
    assert back.key == spec.key


@pytest.mark.parametrize("spec", EVERY, ids=kind)
def test_a_spec_is_frozen_and_hashable(spec):
    with pytest.raises(ValueError, match="frozen"):
        setattr(spec, next(iter(type(spec).model_fields)), None)
    assert len({spec, type(spec)(**spec.model_dump())}) == 1


def test_keys_are_twelve_hex_digits_and_differ():
    keys = {spec.key for spec in EVERY}
    assert len(keys) == len(EVERY)
    assert all(len(key) == 12 and int(key, 16) >= 0 for key in keys)


def test_what_a_server_is_asked_beside_that_is_in_the_key():
    server = LaunchSpec(model=MODEL, runtime="vllm-omni-server")
    drawn = GenerateSpec(launch=server, prompts=PromptSet("a"), seeds=(0,), sampling=Sampling())
    every = [
        LaunchSpec(model=MODEL),
        server,
        server.but(extra_flags=("--vae-use-tiling",)),
        drawn,
        drawn.but(route="images"),
        drawn.but(route="chat"),
    ]
    assert len({spec.key for spec in every}) == len(every)


def test_a_servers_flags_are_refused_in_process():
    with pytest.raises(SpecError, match="a server's command line"):
        LaunchSpec(model=MODEL, extra_flags=("--vae-use-tiling",))


def test_but_validates_again():
    with pytest.raises(SpecError, match=r"num_inference_steps=0"):
        Sampling().but(num_inference_steps=0)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Sampling(num_inference_steps=0), r"num_inference_steps=0.*greater than or equal"),
        (lambda: Sampling(height=250), r"height=250.*multiple of 16"),
        (lambda: Sampling(true_cfg_scale=-1), r"true_cfg_scale=-1.*greater than 0"),
        (lambda: Sampling(steps=3), r"no field 'steps'; it has num_inference_steps, height"),
        (lambda: PromptSet([]), r"prompts=\[\].*at least 1"),
        (lambda: PromptSet(["a cup", "a cup"]), r"\['a cup'\] occur twice"),
        (lambda: ModelRef(""), r"source=''.*at least 1"),
        (lambda: LaunchSpec(model=MODEL, quantization="fp4"), r"'fp4'.*'fp8' or 'int8'"),
        (lambda: LaunchSpec(model=MODEL, dtype="int8"), r"'int8'.*'bfloat16', 'float16'"),
        (lambda: LaunchSpec(model=MODEL, attention_backend="X"), r"'X'.*'TORCH_SDPA'"),
        (lambda: Parallelism(cfg_parallel_size=3), r"cfg_parallel_size=3.*1 or 2"),
        (lambda: Parallelism(tensor_parallel_size=0), r"tensor_parallel_size=0"),
        (lambda: QuantRecipe(method="auto-round", scheme="W3A16"), r"'W3A16'.*'W4A16'"),
        (lambda: QuantRecipe(method="gptq", scheme="W4A16"), r"'gptq'.*'auto-round'"),
        (lambda: RTN.but(group_size=100), r"group_size=100.*32, 64 or 128"),
        (lambda: Calibration(prompts=()), r"prompts=\(\).*at least 1"),
        *(
            (partial(spec, **{side: pixels}), f"{side}={pixels}.*multiple of 16; use {near}$")
            for spec in (Sampling, partial(Calibration, prompts=("a",)))
            for side in ("height", "width")
            for pixels, near in ((130, "128 or 144"), (0, "16"), (8, "16"), (-16, "16"))
        ),
        *((partial(Sampling, num_frames=n), f"num_frames={n}.*4k.1 of them") for n in NO_FRAMES),
        *((partial(Sampling, fps=rate), f"fps={rate}.*from 0.001 to 1000") for rate in NO_RATES),
        *(
            (partial(Calibration, prompts=("a",), num_frames=n), f"num_frames={n}.*4k.1 of them")
            for n in NO_FRAMES
        ),
        *(
            (partial(Calibration, prompts=("a",), images=given), "images are paths of picture file")
            for given in (Image.new("RGB", (2, 2)), 3, [Image.new("RGB", (2, 2))], b"a.png")
        ),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(make, named):
    with pytest.raises(SpecError, match=f"(?s){named}"):
        make()


def test_48_frames_of_a_calibration_are_49_of_one_key_and_both_numbers_are_said():
    with pytest.warns(UserWarning, match="num_frames=48 is not 4k.1, so 49 frames are drawn"):
        given = Calibration(prompts=("a cup",), num_frames=48)
    assert given.num_frames == 49
    assert given.key == Calibration(prompts=("a cup",), num_frames=49).key
    assert Calibration(prompts=("a cup",), num_frames="49") == given


def test_a_spec_error_is_a_value_error():
    assert issubclass(SpecError, ValueError)


def test_tuning_needs_prompts_and_rounding_reads_none():
    with pytest.raises(SpecError, match=r"iters=5 tunes on them; pass"):
        RTN.but(iters=5)
    with pytest.raises(SpecError, match=r"W4A16 reads no calibration; drop it"):
        TUNED.but(iters=0)


def test_a_quantized_checkpoint_is_not_quantized_again():
    with pytest.raises(SpecError, match=r"quantization='fp8'.*W4A16 already"):
        LaunchSpec(model=MODEL, recipe=RTN, quantization="fp8")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (LaunchSpec(model=MODEL), "BF16"),
        (LaunchSpec(model=MODEL, dtype="float32"), "FP32"),
        (LaunchSpec(model=MODEL, quantization="fp8"), "FP8"),
        (LaunchSpec(model=MODEL, recipe=RTN), "W4A16"),
    ],
)
def test_precision_for_tables(spec, name):
    assert spec.precision == name


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,), (2**63,)])
def test_seeds_are_distinct_and_in_range(seeds):
    with pytest.raises(SpecError, match="seeds"):
        GenerateSpec(
            launch=LaunchSpec(model=MODEL),
            prompts=PromptSet("x"),
            seeds=seeds,
            sampling=Sampling(),
        )


def test_world_size_multiplies_what_splits_the_devices():
    assert (
        Parallelism(tensor_parallel_size=2, cfg_parallel_size=2, ulysses_degree=2).world_size == 8
    )
    assert Parallelism(vae_patch_parallel_size=4).world_size == 1


def test_a_calibration_as_served_takes_what_the_sampling_names() -> None:
    clip = Sampling(num_inference_steps=40, height=480, width=832, num_frames=49, guidance_scale=5)
    given = Calibration.as_served(clip, prompts=("a cup",), num_frames=9)
    assert (given.height, given.width, given.num_frames, given.guidance_scale) == (480, 832, 9, 5)
    assert given.num_inference_steps == Calibration(prompts=("a cup",)).num_inference_steps
    picture = Calibration.as_served(Sampling(true_cfg_scale=6), prompts=("a cup",))
    assert picture == Calibration(prompts=("a cup",), guidance_scale=6)
