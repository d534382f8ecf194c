"""What a text costs at each level: milliseconds of the code that serves it, by its number of tokens."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import nnls

from inference.cascade.dispatcher import Level
from inference.cascade.profile import LevelCost, LevelCosts
from inference.hplm.encoder import UpperLayers
from inference.hplm.heads import Head, head_outputs
from inference.hplm.lower_states import finish_lower_states
from inference.hplm.pets.batch import SharedPets
from inference.hplm.plot_lookup import LowerLayers, lookup
from inference.hplm.sequences import PackedSequences
from inference.text.tokenization import Encoding
from workers.training.prepared_split import Backbone, PreparedSplit
from workers.training.task_model import TaskModel

GROUPS: Final = 3
"""Lengths at which texts are measured: short, usual and long ones of the split."""
BATCH: Final = 16
"""Texts of one length that are computed together."""
REPEATS: Final = 3
MILLISECONDS: Final = 1000.0
Floats = npt.NDArray[np.float64]


def measure_costs(model: TaskModel, backbone: Backbone, split: PreparedSplit) -> LevelCosts:
    """Measure a text's milliseconds at the levels TABLE and FULL, on texts of this split: look-up or lower
    layers, upper layers with the PET, and head, in the number format that serves.

    Each length is computed several times, the levels in turn, and the median counts. On a CPU it is processor
    time of one thread: that is what batches side by side have, and other work of the machine does not count.
    On an accelerator, which the processor only waits for, it is time.
    """
    served = _Served.of(model, backbone)
    groups = _by_length(split.sequences)
    seconds: dict[Level, list[list[float]]] = {level: [[] for _ in groups] for level in Level}
    with _one_thread():
        for repeat in range(REPEATS + 1):
            for at, texts in enumerate(groups):
                for level in Level:
                    found = _seconds(partial(served.compute, texts, level), backbone.precision.device)
                    if repeat:  # the first warms up
                        seconds[level][at].append(found / len(texts))
    tokens = np.asarray([np.mean([len(one) for one in texts]) for texts in groups])
    table, full = (fit_cost(tokens, MILLISECONDS * np.median(seconds[level], axis=1)) for level in Level)
    return LevelCosts(table, full)


def fit_cost(tokens: Floats, milliseconds: Floats) -> LevelCost:
    """The line of the least squares through the costs [G] of texts of so many tokens [G]; neither part is
    below 0."""
    fixed, per_token = nnls(np.stack([np.ones_like(tokens), tokens], axis=1), milliseconds)[0].tolist()
    return LevelCost(fixed, per_token)


def text_costs(costs: LevelCosts, lengths: Sequence[int]) -> Floats:
    """The milliseconds [S, 2] of texts of these lengths at the levels TABLE and FULL. One that goes on costs
    both."""
    tokens = np.asarray(lengths, dtype=np.float64)
    return np.stack([one.fixed + one.per_token * tokens for one in (costs.table, costs.full)], axis=1)


@dataclass(frozen=True)
class _Served:
    """The model and its branch in the number format that serves."""

    upper: UpperLayers
    lower: LowerLayers
    pets: SharedPets
    head: Head

    @classmethod
    def of(cls, model: TaskModel, backbone: Backbone) -> "_Served":
        upper, lower, dtype = backbone.root.upper, backbone.lower_layers, backbone.precision.dtype
        if upper.dtype != dtype:
            upper = copy.deepcopy(upper).to(dtype)
            lower = replace(lower, full=copy.deepcopy(lower.full).to(dtype) if lower.full else None)
        lower = replace(lower, composition=lower.on_device.with_context_dtype(upper.dtype))
        weights = {name: one.detach().to(upper.dtype) for name, one in model.trained_pet().weights.items()}
        return cls(upper, lower, SharedPets(weights, model.trained_pet().spec), model.trained_head())

    @torch.inference_mode()
    def compute(self, texts: Sequence[Encoding], level: Level) -> None:
        """What an engine does for a batch of these texts."""
        ids, types = [one.ids for one in texts], [one.types for one in texts]
        found = lookup(ids, [self.lower] * len(ids), [level] * len(ids), types)
        states = finish_lower_states(found, self.upper.dtype).states
        sequences = PackedSequences.of(ids)
        last = self.upper(states, sequences, self.pets)
        head_outputs([self.head] * len(ids), last, sequences, states)


def _by_length(texts: Sequence[Encoding]) -> list[list[Encoding]]:
    """Texts around evenly spaced quantiles of the lengths."""
    ordered = sorted(texts, key=len)
    starts = np.linspace(0, max(0, len(ordered) - BATCH), GROUPS).round().astype(int)
    return [ordered[start : start + BATCH] for start in dict.fromkeys(starts.tolist())]


def _seconds(compute: Callable[[], None], device: torch.device) -> float:
    if device.type == "cpu":
        started = time.process_time()
        compute()
        return time.process_time() - started
    torch.cuda.synchronize(device)
    started = time.perf_counter()
    compute()
    torch.cuda.synchronize(device)
    return time.perf_counter() - started


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
