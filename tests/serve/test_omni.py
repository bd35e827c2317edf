"""What the engine is asked for."""

from pathlib import Path

from workbench.serve.omni import engine_arguments
from workbench.specs import LaunchSpec, ModelRef, Parallelism


def test_unset_options_are_left_to_the_engine() -> None:
    arguments = engine_arguments(Path("m"), LaunchSpec(model=ModelRef("m")))
    assert "quantization" not in arguments
    assert "diffusion_attention_config" not in arguments
    assert arguments["trust_remote_code"] is False
    assert arguments["request_batch_max_wait_ms"] == 0
    assert "distributed_executor_backend" not in arguments  # one device is served inline


def test_set_options_arrive() -> None:
    spec = LaunchSpec(
        model=ModelRef("m"),
        quantization="fp8",
        attention_backend="TORCH_SDPA",
        parallelism=Parallelism(tensor_parallel_size=2),
        enforce_eager=False,
        max_num_seqs=4,
        request_batch_max_wait_ms=20,
        isolation="process",
    )
    arguments = engine_arguments(Path("m"), spec)
    assert arguments["quantization"] == "fp8"
    assert arguments["diffusion_attention_config"] == {"default": "TORCH_SDPA"}
    assert arguments["parallel_config"]["tensor_parallel_size"] == 2
    assert arguments["enforce_eager"] is False
    assert (arguments["max_num_seqs"], arguments["request_batch_max_wait_ms"]) == (4, 20)
    assert arguments["distributed_executor_backend"] == "mp"
