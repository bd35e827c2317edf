"""A launch as a command line: every field has its flag, and what would not start is refused."""

import json
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import SpecError
from workbench.serve import server_flags
from workbench.serve.omni import engine_arguments
from workbench.serve.server_flags import FLAGS, OURS, REFUSED, check_flags, command
from workbench.serve.server_process import LOOPBACK
from workbench.specs import LaunchSpec, ModelRef, Parallelism

FOLDER = Path("/models/qwen-image")
BY_THE_FOLDER = {"isolation", "model", "runtime", "recipe", "stored", "parallelism", "extra_flags"}


def flags(**fields):
    spec = LaunchSpec(model=ModelRef(str(FOLDER)), runtime="vllm-omni-server", **fields)
    return command(spec, FOLDER, 8000, 99.5)


def value(line, flag):
    return line[line.index(flag) + 1]


def test_every_field_has_a_flag_or_lies_in_the_folder():
    assert set(LaunchSpec.model_fields) <= set(FLAGS) | BY_THE_FOLDER
    assert set(Parallelism.model_fields) <= set(FLAGS)


def test_a_plain_launch_names_its_conditions_and_the_loopback_address_alone():
    line = flags()
    assert line[: len(server_flags.PROGRAM) + 3] == [
        *server_flags.PROGRAM,
        "serve",
        str(FOLDER),
        "--omni",
    ]
    assert value(line, "--host") == LOOPBACK == "127.0.0.1"
    assert value(line, "--port") == "8000"
    assert value(line, "--dtype") == "bfloat16"
    assert value(line, "--tensor-parallel-size") == value(line, "--max-num-seqs") == "1"
    assert value(line, "--init-timeout") == "100"
    assert "--enforce-eager" in line
    assert not {"--quantization", "--step-execution", "--trust-remote-code"} & set(line)


def test_each_option_is_its_flag():
    layout = Parallelism(tensor_parallel_size=2, cfg_parallel_size=2, ulysses_degree=4)
    line = flags(
        parallelism=layout,
        quantization="fp8",
        dtype="float16",
        attention_backend="TORCH_SDPA",
        step_execution=True,
        max_num_seqs=3,
        enforce_eager=False,
        extra_flags=("--vae-use-tiling",),
    )
    assert value(line, "--tensor-parallel-size") == value(line, "--cfg-parallel-size") == "2"
    assert value(line, "--ulysses-degree") == "4"
    assert value(line, "--quantization") == "fp8"
    assert value(line, "--dtype") == "float16"
    assert json.loads(value(line, "--diffusion-attention-config")) == {"default": "TORCH_SDPA"}
    assert value(line, "--max-num-seqs") == "3"
    assert "--step-execution" in line
    assert "--enforce-eager" not in line
    assert line[-1] == "--vae-use-tiling"


@pytest.mark.parametrize("flag", [*REFUSED, *OURS])
@pytest.mark.parametrize(
    "spelled", [str, "{}=2".format, lambda flag: "--" + flag[2:].replace("-", "_")]
)
def test_what_would_not_start_or_is_ours_is_refused(flag, spelled):
    why = {**REFUSED, **OURS}[flag]
    with pytest.raises(SpecError, match="extra_flags has"):
        check_flags(["--vae-use-tiling", spelled(flag), "2"])
    assert why


@pytest.mark.parametrize(
    "word", ["--linear", "--no-enforce-eager", "--diffusion-attention-config.default", "-tp", "-q"]
)
def test_other_spellings_are_refused_too(word):
    with pytest.raises(SpecError, match="extra_flags has"):
        check_flags([word])


def test_other_flags_and_their_values_pass():
    check_flags(["--flow-shift", "-1.5", "--vae-use-slicing", "--cache-config", "{}"])
    check_flags(["--force-cutlass-fp8", "--no-guardrails", "--model-class-name=QwenImagePipeline"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extra_flags": ["--linear-backend", "cutlass"]}, "--force-cutlass-fp8"),
        ({"extra_flags": ["--data-parallel-size", "2"]}, "deploy-config"),
        ({"extra_flags": ["--host=0.0.0.0"]}, "127.0.0.1 alone"),
        ({"extra_flags": "--vae-use-tiling"}, "extra_flags='--vae-use-tiling'.*be a list"),
        ({"extra_flags": None}, "extra_flags=None.*be a list"),
        ({"port": 0}, "from 1 to 65535"),
        ({"port": "8123"}, "port='8123'.*from 1 to 65535"),
        ({"start_timeout_s": 0}, "start_timeout_s=0: give a number of seconds"),
        ({"start_timeout_s": "60"}, "start_timeout_s='60': give a number of seconds"),
        ({"runtime": "diffusers"}, "runtime='diffusers' .*workbench.generate draws with it"),
        ({"runtime": "vllm-omni"}, "runtime='vllm-omni' .*workbench.launch starts it"),
        ({"stored": "FP8"}, "stored='FP8' is no option.*leave it out"),
        ({"recipe": None}, "recipe=None is no option.*workbench.quantize"),
        ({"request_batch_max_wait_ms": float("inf")}, "request_batch_max_wait_ms=inf.*finite"),
        ({"nonsense": 1}, "no field 'nonsense'"),
    ],
)
def test_a_bad_server_is_refused_before_anything_starts(
    tiny_qwen, runs, nothing_starts, options, message
):
    with pytest.raises(SpecError, match=message):
        wb.serve(str(tiny_qwen), **options)
    assert not runs.exists()


def test_the_boundary_of_two_experts_is_the_models_own_and_noise_comes_from_the_cpu(tmp_path):
    index = tmp_path / "model_index.json"
    spec = LaunchSpec(model=ModelRef(str(tmp_path)), runtime="vllm-omni-server")
    index.write_text(json.dumps({"boundary_ratio": 0.9}))
    line = command(spec, tmp_path, 8000, 99.5)
    assert value(line, "--boundary-ratio") == "0.9"
    assert json.loads(value(line, "--default-sampling-params")) == {
        "0": {"generator_device": "cpu"}
    }
    assert engine_arguments(tmp_path, spec)["boundary_ratio"] == 0.9
    index.write_text(json.dumps({"boundary_ratio": None}))
    assert "--boundary-ratio" not in command(spec, tmp_path, 8000, 99.5)
    assert "boundary_ratio" not in engine_arguments(tmp_path, spec)
