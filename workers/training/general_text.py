"""A little held-out general text kept with a root, in ids, so that every domain below it can say what it
gains or loses on text that is not its own.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from inference.hplm.weights import read_weights, write_weights
from workers.training.sequences import Framed

GENERAL_FILE = "general_text.safetensors"


def write_general(root: Path, groups: Sequence[list[Framed]]) -> None:
    """Write the sequences of these batches into the root's folder."""
    sequences = [one for group in groups for one in group]
    parts = {
        "ids": np.concatenate([one.ids for one in sequences]),
        "types": np.concatenate([one.types for one in sequences]),
        "lengths": np.asarray([len(one) for one in sequences], dtype=np.int64),
    }
    write_weights(root / GENERAL_FILE, {name: torch.from_numpy(part) for name, part in parts.items()})


def read_general(root: Path) -> list[Framed]:
    """The sequences; none where the root came without."""
    if not (root / GENERAL_FILE).is_file():
        return []
    parts = {name: part.numpy() for name, part in read_weights(root / GENERAL_FILE).items()}
    cuts = np.cumsum(parts["lengths"])[:-1]
    pairs = zip(np.split(parts["ids"], cuts), np.split(parts["types"], cuts), strict=True)
    return [Framed(ids, types) for ids, types in pairs]
