"""Metrics by torchmetrics: MS-SSIM, and LPIPS and CLIPScore where their weights are at hand.

Nothing is downloaded. LPIPS and CLIPScore need trained weights; where these are not found, the
metrics say so and give no number.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import NotSupportedHere
from workbench.eval.pictures import prepare, refuse_smaller, rgb
from workbench.torchvision_ops import define_missing

MS_SSIM_SIDE = 176  # pixels: the fifth scale, a sixteenth, must hold the window of 11
LPIPS_SIDE = 31  # pixels: smaller pictures leave nothing for AlexNet's second pooling
BACKBONE = "alexnet-owt-7be5be79.pth"  # torchvision's AlexNet, IMAGENET1K_V1
CLIP = "openai/clip-vit-base-patch16"
CLIP_FILES = ("model.safetensors", "config.json", "preprocessor_config.json")


def ms_ssim(reference: Any, candidate: Any) -> float:
    """Structural similarity over five scales, each half as fine; mean over channels.

    Wang et al. 2003, https://doi.org/10.1109/ACSSC.2003.1292216, equation 7, with its weights
    0.0448, 0.2856, 0.3001, 0.2363, 0.1333; an 11 x 11 Gaussian window, sigma 1.5; negative terms
    count as 0. In float64: in float32 flat pictures are off by up to 0.0003.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it, at least 176
            pixels a side.
        candidate: picture of the same size.

    Returns:
        From 0 to 1; 1 for identical pictures.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does, or a smaller picture.
    """
    prepared = prepare(reference, candidate)
    refuse_smaller(prepared.reference, MS_SSIM_SIDE, "MS-SSIM")
    define_missing()
    from torchmetrics.functional.image import multiscale_structural_similarity_index_measure

    a, b = (_batch(picture, np.float64) for picture in (prepared.candidate, prepared.reference))
    return float(multiscale_structural_similarity_index_measure(a, b, data_range=1.0))


def lpips(reference: Any, candidate: Any) -> float:
    """Distance of the two pictures in the features of AlexNet, weighted as people judged.

    Zhang et al. 2018, https://doi.org/10.1109/CVPR.2018.00068, equation 1, version 0.1 with its
    learned weights, which torchmetrics carries. The backbone is read by
    ``torch.load(weights_only=True)``, which runs no code of the file.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it, at least 31 pixels
            a side. Gray is RGB with equal channels.
        candidate: picture of the same size.

    Returns:
        From 0, identical; 0.5 is plainly different.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does, or a smaller picture.
        NotSupportedHere: no weights.
    """
    prepared = prepare(reference, candidate)
    refuse_smaller(prepared.reference, LPIPS_SIDE, "LPIPS")
    _refuse(lpips_available())
    import torch

    a, b = (_batch(rgb(picture)) for picture in (prepared.reference, prepared.candidate))
    with torch.inference_mode():
        return float(_lpips_network(_backbone())(a, b, normalize=True))


def lpips_available() -> str:
    """Empty where LPIPS finds AlexNet in PyTorch's hub cache; else the reason why not."""
    if _backbone().is_file():
        return ""
    return f"weights not available: no {BACKBONE} in {_backbone().parent} (TORCH_HOME moves it)"


def clip_score(prompt: str, picture: Any, *, folder: Path | None = None) -> float:
    """How well a picture fits its prompt: 100 times the cosine of their CLIP embeddings.

    Negative ones count as 0. Hessel et al. 2021, https://doi.org/10.18653/v1/2021.emnlp-main.595,
    with 100 for its factor of 2.5, by ``openai/clip-vit-base-patch16``. Prompts are cut after 77
    tokens.

    Args:
        prompt: what the picture should show.
        picture: as :func:`~workbench.eval.pictures.prepare` takes it.
        folder: another CLIP model and its processor, as transformers saves them in safetensors;
            None takes the one in the Hugging Face cache.

    Returns:
        From 0 to 100; 20 to 35 is usual for a picture of what the prompt says.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does.
        NotSupportedHere: no weights.
    """
    pixels = rgb(prepare(picture, picture).candidate)
    _refuse("" if folder else clip_score_available())
    define_missing()
    import torch
    from torchmetrics.functional.multimodal import clip_score as by_torchmetrics

    if pixels.dtype != np.uint8:
        pixels = (255 * pixels).round().astype(np.uint8)
    image = torch.from_numpy(np.moveaxis(pixels, 2, 0).copy())
    with torch.inference_mode():
        return float(by_torchmetrics(image, prompt, lambda: _clip(folder or _clip_folder())))


def clip_score_available() -> str:
    """Empty where CLIPScore finds CLIP in the Hugging Face cache; else the reason why not."""
    if _clip_folder() is not None:
        return ""
    from huggingface_hub import constants

    return (
        f"weights not available: no {CLIP} with {', '.join(CLIP_FILES)} in "
        f"{constants.HF_HUB_CACHE} (HF_HOME moves it)"
    )


def _refuse(reason: str) -> None:
    if reason:
        raise NotSupportedHere(f"{reason}; put them there, or leave this metric out")


def _batch(picture: np.ndarray, dtype: type = np.float32) -> Any:
    """Tensor [1, c, h, w], 0 to 1."""
    import torch

    white = 255 if picture.dtype == np.uint8 else 1
    planes = np.moveaxis(picture, 2, 0).astype(dtype) / dtype(white)
    return torch.from_numpy(np.ascontiguousarray(planes[None]))


def _backbone() -> Path:
    """As torch.hub.get_dir() has it, without loading torch."""
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", f"{caches}/torch")
    return Path(home).expanduser() / "hub" / "checkpoints" / BACKBONE


@cache
def _lpips_network(backbone: Path) -> Any:
    """The network of torchmetrics, whose public function would unpickle whatever the file holds."""
    define_missing()
    import torch
    from torchmetrics.functional.image.lpips import _NoTrainLpips

    network = _NoTrainLpips(net="alex", pnet_rand=True)
    weights = torch.load(backbone, map_location="cpu", weights_only=True)
    # slice2.3.weight is layer 3 of AlexNet's features
    names = {name: f"features.{name.split('.', 1)[1]}" for name in network.net.state_dict()}
    network.net.load_state_dict({ours: weights[theirs] for ours, theirs in names.items()})
    return network


def _clip_folder() -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = [try_to_load_from_cache(CLIP, name) for name in CLIP_FILES]
    return Path(found[0]).parent if all(isinstance(path, str) for path in found) else None


@cache
def _clip(folder: Path) -> tuple[Any, Any]:
    from transformers import CLIPModel, CLIPProcessor

    only_here = {"local_files_only": True}
    model = CLIPModel.from_pretrained(str(folder), use_safetensors=True, **only_here).eval()
    return _Embeddings(model), CLIPProcessor.from_pretrained(str(folder), **only_here)


class _Embeddings:
    """A CLIP model of transformers 5 as torchmetrics 1.9 expects it: features as bare tensors."""

    def __init__(self, model: Any) -> None:
        self._model, self.config = model, model.config

    def to(self, device: Any) -> _Embeddings:
        self._model.to(device)
        return self

    def get_image_features(self, pixels: Any) -> Any:
        return self._model.get_image_features(pixel_values=pixels).pooler_output

    def get_text_features(self, tokens: Any, mask: Any) -> Any:
        return self._model.get_text_features(input_ids=tokens, attention_mask=mask).pooler_output
