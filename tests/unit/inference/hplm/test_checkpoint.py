"""Checkpoints of encoders in folders and of the hub, whose client is offline and has a cache of its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
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


def test_a_shard_outside_the_folder_is_refused(folder: Path) -> None:
    index = {"weight_map": {"x": "../copy/model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert refused(folder).code == "unsupported_checkpoint"


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


def test_weights_of_other_shapes_than_the_configuration_says_are_unsupported(folder: Path) -> None:
    set_config(folder, intermediate_size=8)
    error = root_refused(open_checkpoint(folder))
    assert error.code == "unsupported_checkpoint"
    assert "expand" in error.message


def test_a_configuration_of_more_layers_than_there_are_weights_is_unsupported(folder: Path) -> None:
    set_config(folder, num_hidden_layers=6)
    assert root_refused(open_checkpoint(folder)).code == "unsupported_checkpoint"


def test_a_tokenizer_that_is_none_is_unsupported(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    assert root_refused(open_checkpoint(folder)).code == "unsupported_checkpoint"


def test_a_tokenizer_of_another_model_is_unsupported(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["zygote"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    error = root_refused(open_checkpoint(folder))
    assert error.code == "unsupported_checkpoint"
    assert "embeddings" in error.message


@pytest.mark.parametrize("choice", [{"lower": 0}, {"lower": 4}, {"max_tokens": 65}, {"max_tokens": 2}])
def test_a_split_that_leaves_a_side_empty_or_too_long_a_text_is_refused(
    folder: Path, choice: dict[str, int]
) -> None:
    assert root_refused(open_checkpoint(folder), **choice).code == "unsupported_checkpoint"


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hub"
    folder.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    return folder


def lay_down(cache: Path, name: str, folder: Path) -> None:
    """Make the cache look as if the files of this folder had been fetched as acme/name."""
    repository = cache / f"models--acme--{name}"
    shutil.copytree(folder, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)


@pytest.fixture
def pickled_folder(tmp_path: Path, checkpoint_folder: Path) -> Path:
    """A checkpoint whose weights are only pickled."""
    folder = tmp_path / "pickled"
    shutil.copytree(checkpoint_folder, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    return folder


def test_a_snapshot_with_only_pickled_weights_is_refused(cache: Path, pickled_folder: Path) -> None:
    lay_down(cache, "pickled", pickled_folder)
    with pytest.raises(HplmError, match=r"weights only in pytorch_model\.bin") as caught:
        open_checkpoint("acme/pickled")
    assert caught.value.code == "pickled_checkpoint"


def test_only_pickled_weights_at_the_hub_are_refused_before_anything_is_fetched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_hub = ["config.json", "tokenizer.json", "pytorch_model.bin", "onnx/model.safetensors"]
    monkeypatch.setattr("huggingface_hub.list_repo_files", lambda hub_id: at_the_hub)
    with pytest.raises(HplmError, match="acme/pickled has only pickled weights") as caught:
        open_checkpoint("acme/pickled")
    assert caught.value.code == "pickled_checkpoint"
    assert list(cache.iterdir()) == []


def test_a_hub_id_that_was_fetched_before_needs_no_network(cache: Path, checkpoint_folder: Path) -> None:
    lay_down(cache, "tiny-bert", checkpoint_folder)
    checkpoint = open_checkpoint("acme/tiny-bert")
    assert checkpoint.name == "acme/tiny-bert"
    assert checkpoint.sha256 == open_checkpoint(checkpoint_folder).sha256


@pytest.mark.parametrize("source", ["acme/unknown", "unknown", "acme/../etc", "a/b/c", "", "/etc/nowhere"])
def test_path_that_is_neither_a_folder_nor_a_hub_id_is_not_found(cache: Path, source: str) -> None:
    with pytest.raises(HplmError) as caught:
        open_checkpoint(source)
    assert caught.value.code == "checkpoint_not_found"
