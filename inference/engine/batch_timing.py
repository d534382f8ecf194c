"""When the next batch is chosen while one computes."""

import time
from collections.abc import Callable
from math import ceil
from typing import Final

KEPT: Final = 0.9
MARGIN: Final = 1.5


class NextBatchTiming:
    """Before which of ``layers`` upper layers the next batch is to be chosen: as late as can be, since
    whoever comes until then can still travel with it, but early enough for what is done ahead of its turn."""

    def __init__(self, layers: int) -> None:
        self.layer = 0
        self._layers = layers
        self._ahead_s = self._computing_s = 0.0

    def learn(self, *, ahead_s: float, computing_s: float) -> None:
        """What was done ahead of a batch took so long, and its layers. Older batches weigh less."""
        self._ahead_s = KEPT * self._ahead_s + ahead_s
        self._computing_s = KEPT * self._computing_s + computing_s
        share = MARGIN * self._ahead_s / max(self._computing_s, 1e-9)
        self.layer = max(0, self._layers - max(1, ceil(share * self._layers)))


class LayerCallback:
    """Something else that is done before one layer, once, and how many seconds that took."""

    def __init__(self, layer: int, work: Callable[[], None]) -> None:
        self.seconds = 0.0
        self._layer, self._work = layer, work

    def before(self, layer: int) -> None:
        """This layer comes next."""
        if layer == self._layer:
            started = time.perf_counter()
            self._work()
            self.seconds = time.perf_counter() - started
