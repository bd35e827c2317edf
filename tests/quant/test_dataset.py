import json
import logging
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from workbench.errors import SpecError
from workbench.quant.dataset import read_dataset, warn_truncated


def file(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_table_gives_its_captions_without_twins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = file(tmp_path, "p.tsv", "id\tcaption\n1\ta cat, red\n2\ta dog\n3\ta cat, red\n")
    assert read_dataset(table) == ("a cat, red", "a dog")
    assert "p.tsv: 1 repeated prompts dropped" in caplog.text
    assert read_dataset(str(table), 1) == ("a cat, red",)
    with pytest.raises(SpecError, match=r"nsamples=3: .*p\.tsv holds 2 distinct prompts"):
        read_dataset(table, 3)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.tsv", "id\tcaption\n1\ta\n2\t \n", "no prompt in row 3"),
        ("p.tsv", "id\ttext\n1\ta\n", "columns id, text; it needs 'caption'"),
        ("p.txt", "a\n\nb\n", "no prompt in row 2"),
        ("p.txt", "", "holds 0 distinct prompts"),
        ("p.csv", "caption\na\n", "no .tsv or .txt file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        read_dataset(file(tmp_path, name, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.tsv' is no \.tsv or \.txt file here"):
        read_dataset(tmp_path / "absent.tsv")


def test_prompts_that_the_text_encoder_would_cut_are_counted(
    tiny_flux: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Flux has two tokenizers; the shorter one cuts."""
    shutil.copytree(tiny_flux, tmp_path / "flux")
    limits = [
        json.loads((tmp_path / f"flux/{name}/tokenizer_config.json").read_text())[
            "model_max_length"
        ]
        for name in ("tokenizer", "tokenizer_2")
    ]
    assert limits[0] < limits[1]
    caplog.set_level(logging.WARNING)
    assert warn_truncated(tmp_path / "flux", ("a teapot", "a teapot " * limits[0])) == 1
    assert f"1 of 2 calibration prompts are longer than the {limits[0]} tokens" in caplog.text
    caplog.clear()
    assert warn_truncated(tmp_path / "flux", ("a teapot",)) == 0
    assert not caplog.text


@pytest.mark.parametrize("model", ["tiny_wan", "tiny_i2v", "tiny_qwen"])
def test_pipelines_cut_at_512_tokens_whatever_the_tokenizer_says(
    model: str, request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tokenizers of the large encoders name a far greater length, or none."""
    folder = shutil.copytree(request.getfixturevalue(model), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    tokenizer.model_max_length = 10**30
    tokenizer.save_pretrained(folder / "tokenizer")
    assert warn_truncated(folder, ("a teapot", "teapot " * 600)) == 1
    assert "1 of 2 calibration prompts are longer than the 512 tokens" in caplog.text
