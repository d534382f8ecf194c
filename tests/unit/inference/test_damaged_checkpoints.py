"""Checkpoints of encoders and of decoders in one or several files; damaged, missing or pickled ones."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint
from tests.unit.tiny import tiny_checkpoint
from tests.unit.tiny_decoder import tiny_decoder_folder

WEIGHTS = "model.safetensors"
KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Path]]] = {
    "encoder": (open_checkpoint, tiny_checkpoint),
    "decoder": (open_decoder_checkpoint, tiny_decoder_folder),
}
"""What opens a checkpoint, and what makes one."""


@dataclass(frozen=True)
class Damaged:
    """A copy of a checkpoint that a test may damage, and what opens it."""

    folder: Path
    open: Callable[[Path], Any]

    def refused(self, code: str = "unsupported_checkpoint") -> str:
        """The message of the refusal, which has this code."""
        with pytest.raises(HplmError) as caught:
            self.open(self.folder)
        assert caught.value.code == code
        return caught.value.message


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each kind."""
    scratch = tmp_path_factory.mktemp("published")
    return {kind: make(scratch / kind) for kind, (_, make) in KINDS.items()}


@pytest.fixture(params=KINDS)
def checkpoint(request: pytest.FixtureRequest, published: dict[str, Path], tmp_path: Path) -> Damaged:
    folder = shutil.copytree(published[request.param], tmp_path / "copy")
    return Damaged(folder, KINDS[request.param][0])


def test_a_whole_checkpoint_is_opened(checkpoint: Damaged) -> None:
    assert checkpoint.open(checkpoint.folder)


def test_weights_in_several_files_are_one_checkpoint(checkpoint: Damaged) -> None:
    expected = checkpoint.open(checkpoint.folder).weights
    weights = load_file(checkpoint.folder / WEIGHTS)
    (checkpoint.folder / WEIGHTS).unlink()
    shards = {name: f"{number % 2}.safetensors" for number, name in enumerate(sorted(weights))}
    for shard in set(shards.values()):
        part = {name: value for name, value in weights.items() if shards[name] == shard}
        save_file(part, checkpoint.folder / shard)
    (checkpoint.folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": shards}))
    found = checkpoint.open(checkpoint.folder).weights
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.999])
def test_cut_weights_are_unsupported(checkpoint: Damaged, share: float) -> None:
    file = checkpoint.folder / WEIGHTS
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
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
