"""Masked language modelling: which tokens are hidden (paper section 5.1, after BERT)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids
from workers.training.sequences import Batch, make_batch

SELECTED = 0.15
MASKED, RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class MaskedBatch:
    """Sequences with tokens hidden: the token at (`rows`[k], `places`[k]) was `wanted`[k], int64 all."""

    batch: Batch
    rows: Tensor
    places: Tensor
    wanted: Tensor


def masked_batch(sequences: list[Ids], config: RootConfig, rng: np.random.Generator) -> MaskedBatch:
    """Hide tokens of each sequence anew."""
    hidden = [hide(ids, config, rng) for ids in sequences]
    places = np.concatenate([selected for _, selected in hidden])
    rows = np.repeat(np.arange(len(hidden)), [len(selected) for _, selected in hidden])
    wanted = np.concatenate([ids[at] for ids, (_, at) in zip(sequences, hidden, strict=True)])
    batch = make_batch([ids for ids, _ in hidden], config)
    return MaskedBatch(batch, torch.from_numpy(rows), torch.from_numpy(places), torch.from_numpy(wanted))


def hide(ids: Ids, config: RootConfig, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """What the model reads instead of `ids` [T], and the places it must guess.

    15% of the tokens between [CLS] and [SEP], at least one; of these 80% become [MASK], 10% a random token
    and 10% stay.
    """
    inner = len(ids) - 2
    selected = rng.random(inner) < SELECTED
    if not selected.any():
        selected[rng.integers(inner)] = True
    places = np.flatnonzero(selected) + 1
    fate = rng.random(len(places))
    read = ids.copy()
    read[places[fate < MASKED]] = config.mask_id
    at_random = places[(fate >= MASKED) & (fate < MASKED + RANDOM)]
    read[at_random] = rng.integers(config.vocab, size=len(at_random))
    return read, places
