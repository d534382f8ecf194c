"""Looks at the product's processes again and again: which children run, and how much memory all take."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from benchmarks.product.hostile.figures import Identities, restarted
from benchmarks.product.hostile.product import Product

EVERY_S: Final = 0.5
MEMORY_EVERY: Final = 2
"""To add up the memory of all processes takes long, so it is done every so many times."""


@dataclass(slots=True)
class Seen:
    """What ran at each moment, and the memory of each child when all together had most."""

    moments: list[Identities] = field(default_factory=list)
    memory: Counter[str] = field(default_factory=Counter)


class Watch:
    """Looks as long as the block lasts."""

    def __init__(self, product: Product) -> None:
        self._product, self._seen = product, Seen()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    @contextmanager
    def phase(self) -> Iterator[Seen]:
        """What is seen within the block, its beginning and its end included."""
        found = Seen(moments=[self._product.children()])
        before, self._seen = self._seen, found
        try:
            yield found
        finally:
            self._seen = before
            found.moments.append(self._product.children())

    def _look(self) -> None:
        looks = 0
        while not self._stopped.wait(EVERY_S):
            looks += 1
            seen = self._seen
            seen.moments.append(self._product.children())
            if not looks % MEMORY_EVERY:
                seen.memory = max(seen.memory, self._product.memory_bytes(), key=Counter.total)


def restarts(seen: Seen) -> int:
    """How many children were started again."""
    return sum(restarted(seen.moments).values())


def wait_until_idle(product: Product, *, cores: float, within_s: float) -> bool:
    """Wait until the product takes no more than so many processors; whether it came to that."""
    latest = time.monotonic() + within_s
    while time.monotonic() < latest:
        before, begun = product.cpu_seconds(), time.monotonic()
        time.sleep(EVERY_S)
        if product.cpu_seconds() - before <= cores * (time.monotonic() - begun):
            return True
    return False
