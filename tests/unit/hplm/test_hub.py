"""Hub ids, without a network: the hub's client is told that it is offline and has a cache of its own."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.errors import HplmError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_a_hub_id_that_was_fetched_before_needs_no_network(cache: Path, checkpoint_folder: Path) -> None:
    repository = cache / "models--acme--tiny-bert"
    shutil.copytree(checkpoint_folder, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    checkpoint = open_checkpoint("acme/tiny-bert")
    assert checkpoint.name == "acme/tiny-bert"
    assert checkpoint.sha256 == open_checkpoint(checkpoint_folder).sha256


@pytest.mark.parametrize("source", ["acme/unknown", "unknown", "acme/../etc", "a/b/c", "", "/etc/nowhere"])
def test_what_is_neither_a_folder_nor_a_known_hub_id_is_not_found(cache: Path, source: str) -> None:
    with pytest.raises(HplmError) as caught:
        open_checkpoint(source)
    assert caught.value.code == "checkpoint_not_found"
