"""What is written here loads in vLLM-Omni by its own metadata, kept layers and all."""

from pathlib import Path

import pytest

import workbench as wb
from workbench.recipes import QuantRecipe


@pytest.mark.parametrize(
    ("fixture", "options", "quantized"),
    [
        ("tiny_qwen", {}, 18),
        (
            "tiny_flux",
            {"ignore": ("*.add_*", "to_add_out", "ff.net.2", "proj_out"), "group_size": 64},
            20,
        ),
        ("tiny_wan", {"ignore": ("ffn.net.2", "attn1")}, 10),
    ],
)
def test_the_engine_packs_exactly_what_the_checkpoint_does(
    fixture: str,
    options: dict[str, object],
    quantized: int,
    request: pytest.FixtureRequest,
    runs: Path,
) -> None:
    source = request.getfixturevalue(fixture)
    recipe = QuantRecipe(method="auto-round", scheme="W4A16", **options)
    with wb.launch(wb.quantize(str(source), recipe)) as engine:
        layers = engine.audit.layers
    assert sum(layer.quantized for layer in layers) == quantized
    kept = [name.strip("*.") for name in (*recipe.ignore, "img_mod")]
    for layer in layers:
        if layer.quantized:
            assert not any(part in layer.name for part in kept)
