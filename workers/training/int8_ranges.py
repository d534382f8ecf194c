"""Measures what a root needs to be served with int8 weights: the ranges of inputs, and the error."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.hplm.int8_linear import Linear
from inference.hplm.int8_scales import PLACES_BY_INPUT, Int8Scales, supports_int8
from inference.hplm.local_lower import LocalLower
from inference.hplm.pets.batch import SharedLayer
from inference.hplm.root_config import RootConfig
from inference.hplm.sequences import PackedSequences
from workers.training.hidden_states import Teacher, local_states
from workers.training.progress import Reporter
from workers.training.sequences import TokenSequence, make_batch
from workers.training.unexplained_variance import RunningVariance


@torch.no_grad()
def measure_int8(
    local: LocalLower,
    teacher: Teacher,
    training: Sequence[list[TokenSequence]],
    held_out: Sequence[list[TokenSequence]],
    config: RootConfig,
    reporter: Reporter,
) -> Int8Scales | None:
    """The ranges on training text, computed and looked up, and the error on computed held-out text. None on a
    machine that cannot compute with int8 weights."""
    cpu = torch.device("cpu")
    if not supports_int8(cpu):
        return None
    upper = copy.deepcopy(teacher.upper).to(cpu)
    ranges = InputRanges()
    for exact, looked_up, sequences in _states(local, teacher, training, config, reporter):
        upper(exact, sequences, ranges)
        upper(looked_up, sequences, ranges)
    scales = ranges.scales(config.upper)
    quantized = upper.quantized(map(scales.of_layer, range(config.upper)))
    variance = RunningVariance()
    for exact, _, sequences in _states(local, teacher, held_out, config, reporter):
        variance.add(upper(exact, sequences), quantized(exact, sequences))
    return Int8Scales(scales.low, scales.high, round(variance.unexplained, 4))


def _states(
    local: LocalLower,
    teacher: Teacher,
    batches: Sequence[list[TokenSequence]],
    config: RootConfig,
    reporter: Reporter,
) -> Iterator[tuple[Tensor, Tensor, PackedSequences]]:
    """States at the cut [N, d] of each batch, computed and looked up, on the CPU."""
    for batch_sequences in batches:
        reporter.raise_if_cancelled()
        batch = make_batch(batch_sequences, config, teacher.precision.device)
        exact, looked_up = teacher.at_cut(batch), local_states(local, batch, teacher.precision)
        packed = PackedSequences(tuple(batch.lengths.tolist()))
        yield batch.tokens_of(exact).cpu(), batch.tokens_of(looked_up).cpu(), packed


class InputRanges:
    """Pets that change nothing, and record the range of each column of the linear layers' inputs."""

    def __init__(self) -> None:
        self._low: dict[tuple[int, str], Tensor] = {}
        self._high: dict[tuple[int, str], Tensor] = {}

    def layer(self, index: int) -> "_RecordingLayer":
        return _RecordingLayer({}, self, index)

    def add(self, index: int, place: str, hidden: Tensor) -> None:
        low, high = torch.aminmax(hidden, dim=0)
        key = index, place
        self._low[key] = torch.minimum(low, self._low.get(key, low))
        self._high[key] = torch.maximum(high, self._high.get(key, high))

    def scales(self, layers: int) -> Int8Scales:
        low, high = (
            {
                name: torch.stack([found[index, places[0]] for index in range(layers)])
                for name, places in PLACES_BY_INPUT.items()
            }
            for found in (self._low, self._high)
        )
        return Int8Scales(low, high, 0.0)


@dataclass(frozen=True, slots=True)
class _RecordingLayer(SharedLayer):
    ranges: InputRanges
    index: int

    def linear(self, place: str, module: Linear, hidden: Tensor) -> Tensor:
        self.ranges.add(self.index, place, hidden)
        return SharedLayer.linear(self, place, module, hidden)
