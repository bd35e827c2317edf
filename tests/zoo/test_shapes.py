from pathlib import Path

import pytest

from workbench import zoo
from workbench.errors import SpecError
from workbench.zoo.builders import transformer_parameters
from workbench.zoo.families import family_of
from workbench.zoo.shapes import SHAPES, build_shape, shortened
from workbench.zoo.weights import tensors

BILLIONS = {
    "FLUX.1-dev": 11.90,
    "Qwen-Image": 20.43,
    "Wan2.2-TI2V-5B": 5.00,
    "Wan2.2-T2V-A14B": 14.29,
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_transformer_has_the_published_number_of_parameters(name: str) -> None:
    assert transformer_parameters(SHAPES[name]) / 1e9 == pytest.approx(BILLIONS[name], abs=0.01)


def test_a_shape_is_cut_by_whole_layers() -> None:
    short = shortened(SHAPES["FLUX.1-dev"], 1).transformer
    assert (short["num_layers"], short["num_single_layers"]) == (1, 1)
    assert shortened(SHAPES["Qwen-Image"], None) is SHAPES["Qwen-Image"]
    with pytest.raises(SpecError, match="layers=61: this model has 60; give 1 to 60"):
        shortened(SHAPES["Qwen-Image"], 61)


def test_an_unknown_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no shape 'SDXL'; there are FLUX"):
        build_shape("SDXL", tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_one_layer_of_it_lies_on_disk_as_a_pipeline(name: str, tmp_path: Path) -> None:
    folder = build_shape(name, tmp_path / "model", layers=1)
    assert family_of(folder).name == SHAPES[name].family
    assert zoo.default_sampling(folder) == dict(SHAPES[name].sampling)
    width = 128 * SHAPES[name].transformer["num_attention_heads"]
    assert any(width in one.shape for one in tensors(folder / "transformer").values())
