"""What the context mixer costs beside the upper layers: processor time over the same packed texts."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import torch

from benchmarks.frontier.engine import Branch
from inference.hplm.devices import pick_dtype
from inference.hplm.plot import HIT_UNIGRAM, PlotTable
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.hplm.shared_mixers import mixer_on

BATCH: Final = 32
REPEATS: Final = 9


def mixer_cost(branch: Branch, texts: Sequence[str], number_format: str) -> float:
    """The median over repeats of the mixer's processor time over that of the upper layers, for a batch of
    BATCH texts; 0 for a root without a mixer. The states are random: their values do not change the time."""
    dtype = pick_dtype(number_format, torch.device("cpu"))
    root = Root.load(branch.root, "cpu", dtype)
    tables = next(iter(branch.tables.values()))
    mixer = PlotTable.open(tables[-1]).composition.mixer
    if mixer is None:
        return 0.0
    mixer = mixer_on(mixer, "cpu", dtype)  # a shared one, which does not change
    ids = [root.tokenizer.encode(text).ids for text in texts[:BATCH]]
    sequences = PackedSequences.of(ids)
    tokens = sum(map(len, ids))
    states = torch.randn(tokens, root.config.hidden, generator=torch.Generator().manual_seed(0))
    states, levels = states.to(dtype), torch.full((tokens,), HIT_UNIGRAM)
    with torch.inference_mode():
        ways: list[Callable[[], object]] = [
            lambda: mixer(states, sequences, levels),
            lambda: root.upper(states, sequences),
        ]
        times = [[_processor_time(way) for way in ways] for _ in range(REPEATS + 1)]
    return float(median(mixed / upper for mixed, upper in times[1:]))


def _processor_time(way: Callable[[], object]) -> float:
    started = time.process_time()
    way()
    return time.process_time() - started
