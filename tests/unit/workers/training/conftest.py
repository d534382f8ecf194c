"""A tiny branch of a version tree, trained by nobody: root, local lower half and table."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from inference.hplm.root import Root
from tests.unit.tiny import WORDS, tiny_lower, tiny_plot, tiny_root, tiny_texts


@dataclass(frozen=True)
class Branch:
    """Folders of the artifacts, and the root in memory."""

    checkpoint: Path
    root: Path
    lower: Path
    plot: Path
    loaded: Root


@pytest.fixture(scope="session")
def branch(tmp_path_factory: pytest.TempPathFactory) -> Branch:
    folder = tmp_path_factory.mktemp("branch")
    loaded = tiny_root(folder / "checkpoint")
    loaded.save(folder / "root")
    lower = tiny_lower(loaded)
    lower.save(folder / "lower")
    texts = [*tiny_texts(200), " ".join(WORDS)]
    tiny_plot(folder / "plot", loaded, lower, texts, share=0.6)
    return Branch(folder / "checkpoint", folder / "root", folder / "lower", folder / "plot", loaded)
