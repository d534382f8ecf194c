"""Checkpoints of encoders in folders."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.errors import HplmError
from inference.hplm.checkpoint import Checkpoint, open_checkpoint
from inference.hplm.root import Root


@pytest.fixture
def folder(checkpoint_folder: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint that a test may damage."""
    return shutil.copytree(checkpoint_folder, tmp_path / "copy")


def set_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def refused(source: str | Path) -> HplmError:
    with pytest.raises(HplmError) as caught:
        open_checkpoint(source)
    return caught.value


def root_refused(checkpoint: Checkpoint, **choice: Any) -> HplmError:
    with pytest.raises(HplmError) as caught:
        Root.from_checkpoint(checkpoint, **choice)
    return caught.value


def test_a_checkpoint_with_a_task_head_is_read_by_our_own_names(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    parts = {name.partition(".")[0] for name in checkpoint.weights}
    assert parts == {"embeddings", "layers", "head"}
    assert {"embeddings.words.weight", "layers.0.query.weight", "head.dense.weight"} <= set(
        checkpoint.weights
    )
    assert checkpoint.name == "copy"


def test_weights_stored_in_half_precision_come_out_in_single(folder: Path) -> None:
    file = folder / "model.safetensors"
    save_file({name: value.half() for name, value in load_file(file).items()}, file)
    assert {value.dtype for value in open_checkpoint(folder).weights.values()} == {torch.float32}


def test_the_old_names_of_layer_norms_are_understood(folder: Path) -> None:
    file = folder / "model.safetensors"
    weights = load_file(file)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in weights.items()
    }
    expected = open_checkpoint(folder).weights
    save_file(renamed, file)
    found = open_checkpoint(folder).weights
    assert found.keys() == expected.keys()


def test_a_folder_without_configuration_is_not_found(folder: Path) -> None:
    (folder / "config.json").unlink()
    error = refused(folder)
    assert error.code == "checkpoint_not_found"
    assert "config.json" in error.message


def test_the_path_of_a_pickle_is_refused_too(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert refused(folder / "pytorch_model.bin").code == "pickled_checkpoint"


def test_pickled_weights_beside_safetensors_are_left_alone(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    assert open_checkpoint(folder).weights


def test_a_tokenizer_that_is_none_is_unsupported(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    assert root_refused(open_checkpoint(folder)).code == "unsupported_checkpoint"


@pytest.mark.parametrize("choice", [{"lower": 0}, {"lower": 4}, {"max_tokens": 65}, {"max_tokens": 2}])
def test_a_split_that_leaves_a_side_empty_or_too_long_a_text_is_refused(
    folder: Path, choice: dict[str, int]
) -> None:
    assert root_refused(open_checkpoint(folder), **choice).code == "unsupported_checkpoint"


@pytest.mark.parametrize("source", ["acme/unknown", "/etc/nowhere", "/etc/hostname"])
def test_path_that_is_no_folder_is_not_found(source: str) -> None:
    assert refused(source).code == "checkpoint_not_found"
