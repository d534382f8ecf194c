"""The context term in closed form: what a token's own sum, its neighbours' and the mean of the text say
beyond the window of a fragment (see `inference.hplm.compose`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.compose import CONTEXT_PARTS, Composition
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.hidden_states import Teacher, composed, local_slots
from workers.training.progress import Reporter
from workers.training.ridge import NormalEquations
from workers.training.sequences import Framed, make_batch
from workers.training.simulated_misses import Reading, everywhere, read_at

# Of the mean square of a sum: little, for there are thousands of rows for each of the features.
PENALTY_SHARE = 0.01


@torch.no_grad()
def fit_context(
    local: LocalLower,
    teacher: Teacher,
    groups: Sequence[list[Framed]],
    table: Reading,
    config: RootConfig,
    reporter: Reporter,
) -> None:
    """Set `local`'s context term, of the rank it was made with, from texts read complete, as a table gives
    them and by uni-grams alone, all three alike.
    """
    rank = len(local.context_up)
    readings = (everywhere(0), table, everywhere(fragments.level_count(config.n) - 1))
    equations = NormalEquations(CONTEXT_PARTS * config.hidden, config.hidden)
    reporter.stage("context", len(groups) + 1)
    without = without_context(local.composition)
    for done, sequences in enumerate(groups, start=1):
        batch = make_batch(sequences, config)
        mask = batch.mask.to(local.context_up.device)
        target = teacher.at_cut(batch)
        for reading in readings:
            reporter.check()
            read = batch.reading(read_at(batch.fragments, reading(batch.fragments), config.missing_id))
            sums = composed(local_slots(local, read, teacher.arithmetic), read, without)
            equations.add(_around(sums, mask), (target - sums)[mask])
        reporter.advance(done)
    down, up = equations.solve_low_rank(rank, PENALTY_SHARE)
    local.context_down.copy_(down.reshape(CONTEXT_PARTS, config.hidden, rank))
    local.context_up.copy_(up)
    reporter.advance(len(groups) + 1)


def without_context(parts: Composition) -> Composition:
    """The same composition with a context term of rank 0."""
    return replace(parts, context_down=parts.context_down[:, :, :0], context_up=parts.context_up[:0])


def _around(sums: Tensor, mask: Tensor) -> Tensor:
    """[N, 4 * d]: of every token its own sum, that before, that after, and the mean of its text, of sums
    [B, T, d] that are zero at padding.
    """
    zero = torch.zeros_like(sums[:, :1])
    before, after = torch.cat((zero, sums[:, :-1]), dim=1), torch.cat((sums[:, 1:], zero), dim=1)
    mean = (sums.sum(1, keepdim=True) / mask.sum(1)[:, None, None]).expand_as(sums)
    return torch.cat((sums, before, after, mean), dim=-1)[mask]


def batches_for(groups: Sequence[list[Framed]], tokens: int) -> list[list[Framed]]:
    """The first batches with about so many tokens."""
    ends = np.cumsum([sum(len(one) for one in group) for group in groups])
    return list(groups[: 1 + int(np.searchsorted(ends, tokens))])
