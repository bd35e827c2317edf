import hashlib
import json
import socket

import pytest

from workbench.errors import ModelNotFound
from workbench.specs import ModelRef, Sampling
from workbench.zoo.families import family_of
from workbench.zoo.models import EMBEDDED, default_sampling, fingerprint, locate, pin

NAME = "embedded:qwen-image"
FOLDER = EMBEDDED / "qwen-image"
LARGEST = 35_000_000  # bytes of everything that ships with one embedded model


def test_an_embedded_model_is_found():
    assert locate(ModelRef(NAME)) == FOLDER


def test_an_unknown_embedded_name_lists_those_there_are():
    with pytest.raises(ModelNotFound, match=r"embedded:flux is not.*there are embedded:qwen-image"):
        locate(ModelRef("embedded:flux"))


def test_a_local_folder_is_found(tiny_qwen):
    assert locate(ModelRef(tiny_qwen)) == tiny_qwen.resolve()


def test_a_folder_that_is_no_model_says_what_is_missing(tmp_path):
    with pytest.raises(ModelNotFound, match=r"holds no model_index\.json.*save_pretrained"):
        locate(ModelRef(tmp_path))


@pytest.mark.parametrize("source", ["/no/such/folder", "./no-such-folder"])
def test_an_absent_folder_is_not_looked_up_on_the_hub(source):
    with pytest.raises(ModelNotFound, match="is not a folder"):
        locate(ModelRef(source))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelNotFound, match="is not a folder"):
        locate(ModelRef(tmp_path / "model.safetensors"))


def test_a_hub_id_without_a_network_is_looked_up_nowhere(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it asked for a host"))
    with pytest.raises(ModelNotFound, match=r"'Someone/some-model'.*check the spelling and the n"):
        locate(ModelRef("Someone/some-model"))


def test_what_is_neither_folder_nor_hub_id_is_refused():
    with pytest.raises(ModelNotFound, match="is no folder here and no hub id"):
        locate(ModelRef("not an id/at all/of the hub"))


def test_pinning_fills_in_the_content(tiny_qwen):
    pinned = pin(ModelRef(tiny_qwen))
    assert pinned.revision == fingerprint(tiny_qwen)
    assert pinned.source == str(tiny_qwen)
    assert pin(pinned) == pinned


def pipeline_folder(folder):
    (folder / "vae").mkdir(parents=True)
    (folder / "model_index.json").write_text('{"_class_name": "X", "vae": ["diffusers", "Y"]}')
    (folder / "vae" / "config.json").write_text("{}")
    return folder


def test_a_fingerprint_follows_the_pipeline_and_nothing_beside_it(tmp_path):
    folder = pipeline_folder(tmp_path / "a")
    before = fingerprint(folder)
    (folder / "card.json").write_text("{}")
    (folder / "training").mkdir()
    (folder / "training" / "log.json").write_text("{}")
    assert fingerprint(folder) == before
    (folder / "vae" / "config.json").write_text("[]")
    assert fingerprint(folder) != before


def test_a_fingerprint_does_not_depend_on_the_place(tmp_path):
    one, other = (pipeline_folder(tmp_path / place) for place in ("a", "b"))
    assert fingerprint(one) == fingerprint(other)


def test_a_card_says_how_to_sample():
    sampling = Sampling(**default_sampling(FOLDER))
    assert (sampling.height, sampling.width, sampling.num_inference_steps) == (256, 256, 20)
    assert sampling.true_cfg_scale == 4.0
    assert sampling.negative_prompt == " "


@pytest.mark.parametrize("pipeline", ["QwenImagePipeline", "FluxPipeline", "WanPipeline"])
def test_without_a_card_the_family_says_it(pipeline, tmp_path):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
    assert default_sampling(tmp_path) == family_of(tmp_path).sampling
    Sampling(**default_sampling(tmp_path))


def test_an_unknown_pipeline_is_refused_with_the_known_ones(tmp_path):
    (tmp_path / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    with pytest.raises(ModelNotFound, match=r"StableDiffusionPipeline; the workbench knows Qwen"):
        family_of(tmp_path)


@pytest.fixture(params=["qwen-image", "wan"])
def shipped(request):
    """An embedded model as it lies in the package."""
    return EMBEDDED / request.param


def listed(folder):
    """Path -> SHA-256 of SHA256SUMS."""
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    return dict(reversed(line.split("  ")) for line in lines)


class TestShipped:
    """The embedded models as they lie in the package."""

    def test_every_listed_file_is_the_one_that_was_trained(self, shipped):
        for name, digest in listed(shipped).items():
            assert hashlib.sha256((shipped / name).read_bytes()).hexdigest() == digest, name

    def test_it_is_small_and_only_safetensors(self, shipped):
        files = [file for file in shipped.rglob("*") if file.is_file()]
        assert sum(file.stat().st_size for file in files) <= LARGEST
        kinds = {file.suffix for file in files}
        assert kinds <= {".json", ".safetensors", ".txt", ".md", ""}

    def test_the_card_agrees_with_the_files(self, shipped):
        weights = {n: d for n, d in listed(shipped).items() if n.endswith(".safetensors")}
        assert json.loads((shipped / "card.json").read_text())["sha256"] == weights
        readme = (shipped / "README.md").read_text()
        assert all(digest in readme for digest in weights.values())

    def test_pictures_are_as_good_as_asked(self):
        judged = json.loads((FOLDER / "card.json").read_text())["judged"]
        assert judged["seen"]["object"] >= 0.95
        assert judged["held-out"]["object"] >= 0.92

    def test_clips_are_nearly_as_good_as_true_ones_to_the_judge(self):
        judged = json.loads((EMBEDDED / "wan" / "card.json").read_text())["judged"]
        for kind, asked in (("text", "seen"), ("image", "seen"), ("text", "held-out")):
            found, real = judged[f"{kind}, {asked}"], judged[f"real, {asked}"]
            assert found["motion"] >= 0.98
            assert all(found[what] >= real[what] - 0.1 for what in real), (kind, asked)
