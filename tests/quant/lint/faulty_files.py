"""Faults of files, shards and indices."""

from __future__ import annotations

from pathlib import Path

from faults import CONFIG, FILE, QKV, plant, weights
from planting import Tensor, config, edited, read, split, write

INDEX = f"{FILE}.index.json"
FIRST, SECOND = (f"transformer/diffusion_pytorch_model-0000{n}-of-00002.safetensors" for n in "12")


@plant("qwen W4A16", "shard-missing", SECOND, said="incomplete copy?")
def shard_deleted(folder: Path) -> None:
    split(folder / "transformer")[1].unlink()


@plant("qwen W4A16", "shard-missing", SECOND, said="the others' numbers")
def shard_deleted_with_the_index(folder: Path) -> None:
    split(folder / "transformer")[1].unlink()
    (folder / INDEX).unlink()


@plant("qwen W4A16", "weights-missing", "vae/", said="incomplete copy?")
def vae_without_weights(folder: Path) -> None:
    for file in (folder / "vae").glob("*.safetensors"):
        file.unlink()


@plant("qwen W4A16", "shard-truncated", FILE, "proj_out.weight", said="cut off")
def shard_cut(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors["proj_out.weight"] = shard.tensors.pop("proj_out.weight")  # the last one
    raw = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(raw[:-10])


@plant("qwen W4A16", "header-length", FILE, said="download or save it again")
def header_longer_than_the_file(folder: Path) -> None:
    raw = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes((1 << 40).to_bytes(8, "little") + raw[8:])


@plant("qwen W4A16", "header-corrupt", FILE, said="no JSON")
def header_scrambled(folder: Path) -> None:
    raw = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(raw[:8] + b"x" + raw[9:])


@plant("qwen W4A16", "shard-truncated", FILE, said="no header")
def file_emptied(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


@plant("qwen W4A16", "tensor-bytes", FILE, f"{QKV}.qweight", said="needs")
def shape_not_of_the_bytes(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{QKV}.qweight"].shape[0] += 1


@plant("qwen W4A16", "dtype-unknown", FILE, f"{QKV}.qweight", said="'I4'")
def dtype_nobody_knows(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{QKV}.qweight"].dtype = "I4"


@plant("qwen W4A16", "tensor-overlap", FILE, "proj_out.weight", said="inside the tensor before")
def tensors_overlap(folder: Path) -> None:
    def change(header: dict) -> None:
        offsets = header["proj_out.weight"]["data_offsets"]
        header["proj_out.weight"]["data_offsets"] = [offsets[0] - 64, offsets[1] - 64]

    with weights(folder) as shard:
        shard.change = change


@plant("qwen W4A16", "shard-surplus", FILE, said="after its last tensor")
def bytes_after_the_end(folder: Path) -> None:
    with (folder / FILE).open("ab") as stream:
        stream.write(b"\0" * 32)


@plant("qwen W4A16", "index-stale", INDEX, f"{QKV}.weight", said="of another checkpoint")
def index_of_the_unquantized(folder: Path) -> None:
    split(folder / "transformer")
    with config(folder / INDEX) as index:
        index["weight_map"][f"{QKV}.weight"] = Path(FIRST).name


@plant("qwen W4A16", "tensor-unindexed", FIRST, "stray.weight", "warning", said="whole files")
def tensor_that_no_index_names(folder: Path) -> None:
    split(folder / "transformer")
    with edited(folder / FIRST) as shard:
        shard.tensors["stray.weight"] = Tensor("F32", [1], bytearray(4))


@plant("qwen W4A16", "tensor-twice", SECOND, f"{QKV}.scales", said="whichever it reads last")
def tensor_in_both_shards(folder: Path) -> None:
    files = split(folder / "transformer")
    scales = {**read(files[0]).tensors, **read(files[1]).tensors}[f"{QKV}.scales"]
    for file in files:
        with edited(file) as shard:
            shard.tensors[f"{QKV}.scales"] = scales


@plant("qwen W4A16", "shard-unindexed", FILE, severity="warning", said="not part of the model")
def single_file_beside_indexed_shards(folder: Path) -> None:
    shard = read(folder / FILE)
    split(folder / "transformer")
    write(folder / FILE, shard)


@plant("qwen W4A16", "single-beside-shards", FILE, said="without an index")
def single_file_beside_shards(folder: Path) -> None:
    single_file_beside_indexed_shards(folder)
    (folder / INDEX).unlink()


@plant("qwen W4A16", "index-size", INDEX, severity="warning", said="total_size says 7")
def index_with_a_wrong_size(folder: Path) -> None:
    split(folder / "transformer")
    with config(folder / INDEX) as index:
        index["metadata"]["total_size"] = 7


@plant("qwen W4A16", "index-twice", "transformer/model.safetensors.index.json", said="several")
def two_indices(folder: Path) -> None:
    split(folder / "transformer")
    raw = (folder / INDEX).read_text()
    (folder / "transformer/model.safetensors.index.json").write_text(raw)


@plant("qwen W4A16", "index-broken", INDEX, said="usable")
def index_that_leads_out_of_the_folder(folder: Path) -> None:
    split(folder / "transformer")
    with config(folder / INDEX) as index:
        index["weight_map"][f"{QKV}.scales"] = "../../vae/diffusion_pytorch_model.safetensors"


@plant("qwen W4A16", "pickle", "transformer/model.bin", severity="warning", said="any code")
def pickle_beside(folder: Path) -> None:
    (folder / "transformer/model.bin").write_bytes(b"\x80\x04.")


@plant("qwen W4A16", "config-broken", CONFIG, said="save it again")
def config_cut(folder: Path) -> None:
    raw = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(raw[:50])
