"""PET operator scheduling (PetS, Algorithm 2), and a model of how operators on several streams overlap.

The model: an operator alone takes the seconds that were measured for it, and uses the share of the device's
rate of products, and of its bandwidth, that its FLOP and bytes in this time come to. Operators on one stream
run in turn, those on different streams at once: they keep their pace as long as their shares of both sum to
at most one, and else all slow down alike. Each stream beyond the first costs `SYNCHRONIZATION_S` whenever the
streams are joined. A CPU has no streams: this is a simulation.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from benchmarks.serving.sgmv import Roof

SYNCHRONIZATION_S: Final = 1e-5
"""To begin and to join a stream: some ten microseconds on GPUs. Assumed, not measured."""
FEW_STREAMS, MANY_STREAMS = 2, 32
"""For short and long inputs (section 6.3.3)."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The PET operators of one task in a macro-batch. seconds: of them alone, by the latency model."""

    flop: float
    bytes: float
    seconds: float

    @property
    def bandwidth(self) -> float:
        """Bytes a second that it uses: the bandwidth model ω."""
        return self.bytes / self.seconds

    @property
    def intensity(self) -> float:
        """Achieved operational intensity: FLOP a second over bytes a second (line 5)."""
        return self.flop / self.seconds / self.bandwidth


Streams = list[list[Operator]]


def schedule(operators: Sequence[Operator], streams: int) -> Streams:
    """Algorithm 2: the operators in ascending intensity, in one group of neighbors for each stream.

    The paper's line 9 puts operator number i on stream ⌊i/|S|⌋, which is beyond the last stream where
    |O| > |S|². The text wants operators of different intensity on different streams, so the groups of
    neighbors have ⌈|O|/|S|⌉ operators here; the last may have fewer, and streams may stay empty.
    """
    if streams < 1:
        raise ValueError("operators need a stream")
    ordered = sorted(operators, key=lambda operator: operator.intensity)
    size = max(1, ceil(len(ordered) / streams))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def in_turn(operators: Sequence[Operator], streams: int) -> Streams:
    """What Algorithm 2 is compared with: operator number i on stream i mod |S|."""
    return [chosen for at in range(streams) if (chosen := [*operators[at::streams]])]


def choose_streams(length: int, threshold: float) -> int:
    """How many streams section 6.3.3 uses for queries of `length` tokens: few below the threshold, which is
    measured on each machine."""
    return FEW_STREAMS if length < threshold else MANY_STREAMS


def makespan(streams: Streams, roof: Roof, *, joins: int = 1) -> float:
    """Seconds until all streams have ended, by the module's model. joins: how often they are joined."""
    waiting = [deque(stream) for stream in streams if stream]
    left = [queue[0].seconds for queue in waiting]
    ended = joins * SYNCHRONIZATION_S * max(0, len(waiting) - 1)
    while waiting:
        running = [queue[0] for queue in waiting]
        products = sum(operator.flop / operator.seconds for operator in running) / roof.flop
        traffic = sum(operator.bandwidth for operator in running) / roof.bytes
        step = min(left)
        ended += step * max(1.0, products, traffic)
        going = []
        for queue, seconds in zip(waiting, left, strict=True):
            if seconds > step:
                going.append((queue, seconds - step))
                continue
            queue.popleft()
            if queue:
                going.append((queue, queue[0].seconds))
        waiting, left = [queue for queue, _ in going], [seconds for _, seconds in going]
    return ended
