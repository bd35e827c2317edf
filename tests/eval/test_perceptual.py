import numpy as np
import pytest
import torch
from huggingface_hub import constants

from workbench.errors import ComparisonRefused, NotSupportedHere
from workbench.eval import perceptual
from workbench.eval.perceptual import (
    BACKBONE,
    CLIP,
    clip_score,
    clip_score_available,
    lpips,
    lpips_available,
    ms_ssim,
)
from workbench.torchvision_ops import define_missing
from workbench.zoo.tiny_tokenizers import build_clip

PROMPT = "a red car"


def noisy(shape, seed=0):
    source = np.random.default_rng(seed)
    a = source.integers(0, 256, shape).astype(np.uint8)
    return a, np.clip(a + source.normal(0, 40, shape), 0, 255).astype(np.uint8)


def batch(p):
    return torch.from_numpy(np.moveaxis(p / 255.0, 2, 0)[None])


@pytest.fixture
def nothing_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def torch_home(tmp_path_factory):
    """A hub cache with an AlexNet of random weights."""
    define_missing()
    import torchvision

    home = tmp_path_factory.mktemp("torch")
    file = home / "hub" / "checkpoints" / BACKBONE
    file.parent.mkdir(parents=True)
    torch.manual_seed(0)
    torch.save(torchvision.models.alexnet(weights=None).state_dict(), file)
    yield home
    file.unlink()  # 244 MB


@pytest.fixture(scope="module")
def clip_cache(tmp_path_factory):
    """A Hugging Face cache with a tiny random CLIP, and the folder it lies in."""
    define_missing()
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    cache = tmp_path_factory.mktemp("hub")
    repository = cache / f"models--{CLIP.replace('/', '--')}"
    folder = repository / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    size |= {"num_attention_heads": 2}
    tokens = build_clip(folder)
    ends = {"bos_token_id": tokens - 2, "eos_token_id": tokens - 1, "pad_token_id": tokens - 1}
    config = CLIPConfig(
        text_config=size | ends | {"vocab_size": tokens},
        vision_config=size | {"image_size": 32, "patch_size": 8},
        projection_dim=8,
    )
    torch.manual_seed(0)
    CLIPModel(config).save_pretrained(folder)
    square = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=square).save_pretrained(folder)
    return cache, folder


@pytest.mark.parametrize("shape", [(176, 176, 3), (200, 181, 3), (176, 190, 1)])
def test_ms_ssim_is_that_of_torchmetrics(shape):
    define_missing()
    from torchmetrics.image import MultiScaleStructuralSimilarityIndexMeasure

    a, b = noisy(shape)
    expected = MultiScaleStructuralSimilarityIndexMeasure(data_range=1.0)(batch(b), batch(a))
    assert ms_ssim(a, b) == pytest.approx(float(expected), abs=1e-6)
    assert ms_ssim(a / 255, b / 255) == pytest.approx(float(expected), abs=1e-6)


def test_ms_ssim_of_identical_pictures_is_one():
    a, _ = noisy((180, 180, 3))
    assert ms_ssim(a, a) == pytest.approx(1, abs=1e-12)


def test_ms_ssim_of_constant_pictures_is_the_luminance_term_of_the_last_scale():
    a, b = (np.full((176, 176, 3), value, np.uint8) for value in (100, 150))
    c1 = (0.01 * 255) ** 2
    luminance = (2 * 100 * 150 + c1) / (100**2 + 150**2 + c1)
    assert ms_ssim(a, b) == pytest.approx(luminance**0.1333, abs=1e-9)


@pytest.mark.parametrize(
    ("metric", "side", "shape"),
    [
        (ms_ssim, 176, (5, 5)),
        (ms_ssim, 176, (175, 400)),
        (lpips, 31, (6, 9)),
        (lpips, 31, (30, 99)),
    ],
)
def test_small_pictures_are_refused(metric, side, shape):
    said = f"at least {side} x {side} pixels, got {shape[0]} x {shape[1]}"
    with pytest.raises(ComparisonRefused, match=said):
        metric(*noisy((*shape, 3)))


def test_absent_weights_are_said_and_never_fetched(nothing_cached, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("opened a connection")

    monkeypatch.setattr("socket.socket.connect", refuse)
    a, b = noisy((64, 64, 3))
    for metric, first, available in (
        (lpips, a, lpips_available),
        (clip_score, PROMPT, clip_score_available),
    ):
        assert available().startswith("weights not available: no ")
        assert str(nothing_cached) in available()
        with pytest.raises(NotSupportedHere, match=r"weights not available: .*; put them there"):
            metric(first, b)
    assert list(nothing_cached.iterdir()) == []


def test_the_hub_cache_is_where_torch_has_it(monkeypatch, tmp_path):
    for name, value in (("TORCH_HOME", str(tmp_path)), ("XDG_CACHE_HOME", str(tmp_path / "x"))):
        monkeypatch.delenv("TORCH_HOME", raising=False)
        monkeypatch.setenv(name, value)
        assert str(perceptual._backbone().parents[1]) == torch.hub.get_dir()


def test_lpips_is_that_of_torchmetrics(torch_home, monkeypatch):
    from torchmetrics.functional.image import learned_perceptual_image_patch_similarity

    monkeypatch.setenv("TORCH_HOME", str(torch_home))
    a, b = noisy((31, 50, 3))
    expected = learned_perceptual_image_patch_similarity(
        batch(a).float(), batch(b).float(), normalize=True
    )
    assert lpips_available() == ""
    assert lpips(a, b) == pytest.approx(float(expected), rel=1e-5)
    assert lpips(a / 255, b) == pytest.approx(float(expected), rel=1e-4)
    assert lpips(a, b) > 0
    assert lpips(a, a) == 0


def test_lpips_runs_no_code_of_a_weight_file(nothing_cached):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("the file ran code",))

    file = nothing_cached / "hub" / "checkpoints" / BACKBONE
    file.parent.mkdir(parents=True)
    torch.save({"features.0.weight": Bomb()}, file)
    with pytest.raises(Exception, match="Weights only load failed"):
        lpips(*noisy((40, 40, 3)))


def by_clip(folder, prompt, pixels):
    """The cosine that CLIP's own forward gives, with its temperature taken out."""
    from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer

    model = CLIPModel.from_pretrained(folder).eval()
    text = CLIPTokenizer.from_pretrained(folder)(prompt, return_tensors="pt")
    image = CLIPImageProcessor.from_pretrained(folder)(images=pixels, return_tensors="pt")
    with torch.no_grad():
        logits = model(**text, pixel_values=image["pixel_values"]).logits_per_image
        return 100 * float(logits / model.logit_scale.exp())


def test_clip_score_is_the_cosine_that_clip_gives(clip_cache, monkeypatch):
    cache, folder = clip_cache
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    assert clip_score_available() == ""
    for seed in range(4):
        a, _ = noisy((40, 50, 3), seed)
        expected = max(by_clip(folder, PROMPT, a), 0)
        assert clip_score(PROMPT, a) == pytest.approx(expected, abs=1e-3)
        assert clip_score(PROMPT, a / 255, folder=folder) == pytest.approx(expected, abs=1e-3)


def test_clip_score_takes_long_prompts(clip_cache):
    assert 0 <= clip_score("a red car " * 60, noisy((40, 50, 3))[0], folder=clip_cache[1]) <= 100
