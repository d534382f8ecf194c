"""Masked language modelling: which tokens are hidden (paper section 5.1, after BERT)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids

# The label of a token that is not to be predicted.
NOT_SELECTED = -100


@dataclass(frozen=True)
class MaskedSequence:
    """ids as the model reads them; labels: the original id where a prediction is asked for, else NOT_SELECTED."""

    ids: Ids
    labels: npt.NDArray[np.int64]


def mask_sequence(
    ids: Ids, config: RootConfig, rng: np.random.Generator, *, share: float = 0.15
) -> MaskedSequence:
    """Select `share` of the tokens between [CLS] and [SEP], at least one; 80% become [MASK], 10% any token, 10% stay."""
    inner = len(ids) - 2
    selected = rng.random(inner) < share
    if not selected.any():
        selected[rng.integers(inner)] = True
    fate = rng.random(inner)
    replaced = ids.copy()
    middle = replaced[1:-1]
    middle[selected & (fate < 0.8)] = config.mask_id
    random_token = selected & (fate >= 0.8) & (fate < 0.9)
    middle[random_token] = rng.integers(config.vocab, size=int(random_token.sum()))
    labels = np.full(len(ids), NOT_SELECTED, dtype=np.int64)
    labels[1:-1][selected] = ids[1:-1][selected]
    return MaskedSequence(replaced, labels)
