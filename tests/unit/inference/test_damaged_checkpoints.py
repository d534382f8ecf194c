"""Checkpoints of encoders and of decoders in one or several files; damaged, missing or pickled ones."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.root import DecoderRoot
from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from inference.machine_memory import machine_bytes
from tests.unit.tiny import tiny_checkpoint
from tests.unit.tiny_decoder import tiny_decoder_folder

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any], Callable[[Path], Path]]] = {
    "encoder": (open_checkpoint, Root.from_checkpoint, tiny_checkpoint),
    "decoder": (open_decoder_checkpoint, DecoderRoot.from_checkpoint, tiny_decoder_folder),
}
"""What opens a checkpoint, what makes a root of it, and what makes one."""


@dataclass(frozen=True)
class Damaged:
    """A copy of a checkpoint that a test may damage, and what opens it."""

    folder: Path
    open: Callable[[Path], Any]
    make_root: Callable[[Any], Any]

    def refused(self, code: str = "unsupported_checkpoint") -> str:
        """The message of the refusal, which has this code."""
        with pytest.raises(HplmError) as caught:
            self.make_root(self.open(self.folder))
        assert caught.value.code == code
        return caught.value.message


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each kind."""
    scratch = tmp_path_factory.mktemp("published")
    return {kind: make(scratch / kind) for kind, (_, _, make) in KINDS.items()}


@pytest.fixture(params=KINDS)
def checkpoint(request: pytest.FixtureRequest, published: dict[str, Path], tmp_path: Path) -> Damaged:
    folder = shutil.copytree(published[request.param], tmp_path / "copy")
    return Damaged(folder, *KINDS[request.param][:2])


def test_a_whole_checkpoint_is_opened(checkpoint: Damaged) -> None:
    assert checkpoint.open(checkpoint.folder)


def split(folder: Path) -> dict[str, str]:
    """Split the weights into two files with an index, and return the file of each tensor."""
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    shards = {name: f"{number % 2}.safetensors" for number, name in enumerate(sorted(weights))}
    for shard in set(shards.values()):
        save_file({name: weights[name] for name in weights if shards[name] == shard}, folder / shard)
    (folder / INDEX).write_text(json.dumps({"weight_map": shards}))
    return shards


def test_weights_in_several_files_are_one_checkpoint(checkpoint: Damaged) -> None:
    expected = checkpoint.open(checkpoint.folder).weights
    split(checkpoint.folder)
    found = checkpoint.open(checkpoint.folder).weights
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.999])
def test_cut_weights_are_unsupported(checkpoint: Damaged, share: float) -> None:
    file = checkpoint.folder / WEIGHTS
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    assert WEIGHTS in checkpoint.refused()


def test_a_header_that_claims_more_than_its_file_has_is_unsupported(checkpoint: Damaged) -> None:
    about = {"dtype": "F32", "shape": [1 << 30, 1 << 10], "data_offsets": [0, 1 << 42]}
    header = json.dumps({"bomb": about}).encode()
    (checkpoint.folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    assert WEIGHTS in checkpoint.refused()


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_unsupported(checkpoint: Damaged, poison: float) -> None:
    file = checkpoint.folder / WEIGHTS
    weights = load_file(file)
    name = next(name for name in weights if ".1." in name)
    weights[name].view(-1)[-1] = poison
    save_file(weights, file)
    assert name in checkpoint.refused()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl", "model.ckpt"])
def test_pickled_weights_are_refused_unread(checkpoint: Damaged, name: str) -> None:
    (checkpoint.folder / WEIGHTS).rename(checkpoint.folder / name)
    assert name in checkpoint.refused("pickled_checkpoint")


@pytest.mark.parametrize("file", [WEIGHTS, "tokenizer.json"])
def test_a_checkpoint_that_lacks_a_file_is_unsupported(checkpoint: Damaged, file: str) -> None:
    (checkpoint.folder / file).unlink()
    assert file in checkpoint.refused()


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"lost": "0.safetensors"}, "lost is in 0.safetensors, which lacks it"),
        ({"lost": "2.safetensors"}, "2.safetensors is missing"),
        ({"lost": "../copy/0.safetensors"}, "lost is in '../copy/0.safetensors'"),
        ({"lost": "pytorch_model.bin"}, "lost is in 'pytorch_model.bin'"),
        ({"lost": 0}, "lost is in 0"),
    ],
)
def test_an_index_that_does_not_fit_its_files_is_named(
    checkpoint: Damaged, entries: dict[str, Any], said: str
) -> None:
    shards = {**split(checkpoint.folder), **entries}
    (checkpoint.folder / INDEX).write_text(json.dumps({"weight_map": shards}))
    assert said in checkpoint.refused()


def test_a_tensor_in_two_files_is_named(checkpoint: Damaged) -> None:
    name = next(name for name, shard in split(checkpoint.folder).items() if shard == "0.safetensors")
    other = load_file(checkpoint.folder / "1.safetensors")
    save_file({**other, name: torch.zeros(3)}, checkpoint.folder / "1.safetensors")
    assert f"{name} is in 0.safetensors, but 1.safetensors has it, too" in checkpoint.refused()


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": ["0.safetensors"]}])
def test_an_index_of_nothing_is_named(checkpoint: Damaged, index: dict[str, Any]) -> None:
    (checkpoint.folder / INDEX).write_text(json.dumps(index))
    assert INDEX in checkpoint.refused()


QUERY = re.compile(r"layers?\.1\..*(query|q_proj)\.weight")
Tensors = dict[str, torch.Tensor]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda name, _: {}, r"layers\.1\.query\.weight"),
        (lambda name, value: {name: value[:, :5].clone()}, r"layers\.1\.query\.weight"),
        (lambda name, value: {name: value.to(torch.int8)}, r"layers\.1\.query\.weight is stored as .*int8"),
        (lambda name, value: {name: value, name.replace(".1.", ".9."): value.clone()}, r"layers?\.9\."),
        (lambda name, value: {name: value, _beside(name): value.clone()}, r"adapter\.weight is no part"),
    ],
    ids=["missing", "of another shape", "whole numbers", "of a layer too many", "unknown"],
)
def test_a_tensor_that_does_not_fit_is_named(
    checkpoint: Damaged, changed: Callable[[str, torch.Tensor], Tensors], said: str
) -> None:
    weights = load_file(checkpoint.folder / WEIGHTS)
    name = next(filter(QUERY.search, weights))
    value = weights.pop(name)
    save_file({**weights, **changed(name, value)}, checkpoint.folder / WEIGHTS)
    assert re.search(said, checkpoint.refused())


def _beside(name: str) -> str:
    """A tensor in the same layer that no family has."""
    return re.sub(r"\.1\..*", ".1.adapter.weight", name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_act", "wobble"),
        ("hidden_size", -32),
        ("hidden_size", 10**400),
        ("num_hidden_layers", 10**12),
        ("num_hidden_layers", 0),
        ("num_attention_heads", 0),
        ("vocab_size", -1),
        ("vocab_size", 2.5),
        ("max_position_embeddings", 1 << 28),
        ("max_position_embeddings", True),
    ],
)
def test_a_field_that_makes_no_sense_is_named(checkpoint: Damaged, field: str, value: object) -> None:
    set_config(checkpoint.folder, field, value)
    ours = {"hidden_act": "wobble", "max_position_embeddings": "position"}
    shown = ours.get(field, field.removeprefix("num_").removesuffix("_size").split("_")[-1])
    assert shown in checkpoint.refused()


@pytest.mark.parametrize("field", ["intermediate_size", "vocab_size"])
def test_sizes_beyond_the_memory_are_refused_before_it_is_taken(checkpoint: Damaged, field: str) -> None:
    set_config(checkpoint.folder, field, 1 << 28)
    assert re.search("shape|vocabulary", checkpoint.refused())


def set_config(folder: Path, field: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: value}))


def test_weights_beyond_the_memory_are_refused_unread(checkpoint: Damaged) -> None:
    os.truncate(checkpoint.folder / WEIGHTS, machine_bytes() + 1)  # A hole takes no space.
    assert "this machine's memory" in checkpoint.refused("out_of_memory")


def test_a_tokenizer_with_ids_beyond_the_vocabulary_is_named(checkpoint: Damaged) -> None:
    file = checkpoint.folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["model"]["vocab"]["zygote"] = 5000
    file.write_text(json.dumps(tokenizer))
    assert "tokenizer.json has the id 5000" in checkpoint.refused()
