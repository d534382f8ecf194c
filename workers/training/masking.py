"""Masked language modelling: which tokens are hidden (paper section 5.1, after BERT)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids
from workers.training.sequences import Batch, Framed, make_batch
from workers.training.simulated_misses import Patterns

SELECTED = 0.15
MASKED, RANDOM = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class Hidden:
    """A sequence with tokens hidden: what the model reads of it and, in place of its fragments, `read`
    [T, n]; the token at places[k] was wanted[k].
    """

    framed: Framed
    read: Ids
    places: Ids
    wanted: Ids

    def __len__(self) -> int:
        return len(self.framed)


def hide(
    sequence: Framed, config: RootConfig, rng: np.random.Generator, patterns: Patterns | None = None
) -> Hidden:
    """Hide tokens of a sequence and, with `patterns`, draw which of its fragments a table would lack.

    15% of the tokens that are not special, at least one; of these 80% become [MASK], 10% a random token and
    10% stay.
    """
    ids = sequence.ids
    may_go = np.flatnonzero(~np.isin(ids, (config.cls_id, config.sep_id)))
    places = may_go[rng.random(len(may_go)) < SELECTED]
    if not len(places) and len(may_go):
        places = rng.choice(may_go, size=1)
    fate = rng.random(len(places))
    left = ids.copy()
    left[places[fate < MASKED]] = config.mask_id
    at_random = places[(fate >= MASKED) & (fate < MASKED + RANDOM)]
    left[at_random] = rng.integers(config.vocab, size=len(at_random))
    read = fragments.of_sequence(left, config.missing_id, config.n)
    if patterns is not None:
        read = patterns.draw(read, rng, config.missing_id)
    return Hidden(Framed(left, sequence.types), read, places, ids[places])


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Sequences with tokens hidden: the token at (`rows`[k], `places`[k]) was `wanted`[k], int64 all."""

    batch: Batch
    rows: Tensor
    places: Tensor
    wanted: Tensor


def masked_batch(sequences: Sequence[Hidden], config: RootConfig) -> MaskedBatch:
    """The batch of these sequences, as they are read."""
    rows = np.repeat(np.arange(len(sequences)), [len(one.places) for one in sequences])
    places = np.concatenate([one.places for one in sequences])
    wanted = np.concatenate([one.wanted for one in sequences])
    batch = make_batch([one.framed for one in sequences], config)
    batch = batch.reading(np.concatenate([one.read for one in sequences]))
    return MaskedBatch(batch, torch.from_numpy(rows), torch.from_numpy(places), torch.from_numpy(wanted))
