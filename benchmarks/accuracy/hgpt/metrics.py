"""Perplexity of a root whose lower states come from elsewhere, and the time of its prefill."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.accuracy.hgpt.conversion import upper_states
from benchmarks.accuracy.hgpt.texts import Texts
from benchmarks.serving.timing import interleaved
from inference.decoder.decoder import Decoder

PREFILL_TEXTS: Final = 2


@torch.no_grad()
def perplexity(
    decoder: Decoder, texts: Texts, lower: int, states_of: Callable[[Texts], Tensor]
) -> dict[str, float]:
    """The perplexity of all tokens but the first of each text, and how many they are.

    states_of: the states [T, hidden] above the lowest `lower` layers.
    """
    total, count = 0.0, 0
    for batch in texts.batches():
        last = upper_states(decoder, batch, states_of(batch), lower)
        is_followed = torch.ones(len(last), dtype=torch.bool)
        is_followed[torch.from_numpy(batch.layout.ends) - 1] = False
        rows = torch.nonzero(is_followed).squeeze(1)
        wanted = batch.token_ids[rows + 1]
        total += float(functional.cross_entropy(decoder.logits(last[rows]), wanted, reduction="sum"))
        count += len(rows)
    return {"perplexity": math.exp(total / count), "tokens": count}


@torch.inference_mode()
def prefill_seconds(
    decoder: Decoder, texts: Texts, lowers: Sequence[int], repeats: int
) -> dict[int, Sequence[float]]:
    """Processor seconds of each repeat of a prefill of two texts, up to the logits of their next tokens.

    The states of the lowest `lower` layers are gathered from a table in memory, by rows that are known.
    """
    few = Texts(texts.ids[:PREFILL_TEXTS])
    ends = torch.from_numpy(few.layout.ends) - 1
    rows = torch.randperm(len(few.token_ids), generator=torch.Generator().manual_seed(0))
    embedded = decoder.embed(few.token_ids, few.positions)
    table = torch.empty_like(embedded).index_copy_(0, rows, embedded)

    def run(lower: int, _repeat: int) -> float:
        started = time.process_time()
        states = table[rows] if lower else decoder.embed(few.token_ids, few.positions)
        decoder.logits(upper_states(decoder, few, states, lower)[ends])
        return time.process_time() - started

    found = interleaved({lower: partial(run, lower) for lower in lowers}, repeats=repeats)
    return {lower: sample.seconds for lower, sample in found.items()}
