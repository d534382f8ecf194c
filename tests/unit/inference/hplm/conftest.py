"""One tiny root, made once, for the tests of the science modules."""

from pathlib import Path

import pytest

from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from tests.unit.tiny import tiny_checkpoint, tiny_lower, tiny_root


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-bert", lm_head=True)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return tiny_root(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="session")
def lower(root: Root) -> LocalLower:
    return tiny_lower(root)
