"""Hub ids, without a network: the hub's client is told that it is offline and has a cache of its own."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint

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
def test_what_is_neither_a_folder_nor_a_known_hub_id_is_not_found(cache: Path, source: str) -> None:
    with pytest.raises(HplmError) as caught:
        open_checkpoint(source)
    assert caught.value.code == "checkpoint_not_found"
