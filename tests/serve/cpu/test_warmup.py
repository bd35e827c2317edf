from workbench.torchvision_ops import define_missing

define_missing()

from vllm_omni.diffusion.diffusion_engine import DiffusionEngine  # noqa: E402

from workbench.serve.cpu import warmup  # noqa: E402


def test_the_warm_up_is_small_and_otherwise_as_asked() -> None:
    asked = []

    def make(engine: object, **named: object) -> None:
        asked.append(named)

    warmup._small(make)(None, height=512, width=512, guidance_scale=0.0, num_inference_steps=2)
    assert asked == [{"height": 64, "width": 64, "guidance_scale": 0.0, "num_inference_steps": 2}]


def test_it_is_in_force_once() -> None:
    warmup.register()
    first = DiffusionEngine._make_dummy_request
    warmup.register()
    assert DiffusionEngine._make_dummy_request is first
    assert hasattr(first, "__wrapped__")
