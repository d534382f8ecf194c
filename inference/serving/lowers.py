"""The lower layers that compute what tables lack: loaded when first wanted, bounded in memory and in time."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from torch import nn

log = logging.getLogger(__name__)
Module = TypeVar("Module", bound=nn.Module)

REST = 9.0
"""After one load in place of others no second one for so many times as long: where the budget is too small,
loading takes a tenth of the time and the rest is left to answering."""


class Use:
    """As long as somebody holds this, what was got with it is not pushed out."""

    __slots__ = ("__weakref__",)


class LowerCache:
    """Lower layers by name, within a budget of bytes: those used last stay. What does not fit beside what is
    in use, or may not push out others yet, is None: texts then get what the tables have. So is what can never
    fit or cannot be loaded, and that is not tried again before the next ``keep``."""

    def __init__(self, *, budget_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.last_error = ""
        self.loads = 0
        self.budget_bytes = budget_bytes
        self._clock = clock
        self._held: OrderedDict[str, nn.Module] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._uses: WeakKeyDictionary[Use, set[str]] = WeakKeyDictionary()
        self._failed: set[str] = set()
        self._told: set[str] = set()
        self._next_exchange = 0.0

    @property
    def used_bytes(self) -> int:
        return sum(self._sizes[name] for name in self._held)

    def get(self, name: str, load: Callable[[], Module], use: Use) -> Module | None:
        """What is held under the name, loaded first where need be; it stays while ``use`` is held. One name
        always has one type."""
        if name in self._failed:
            return None
        if name not in self._held and not self._fill(name, load):
            return None
        self._held.move_to_end(name)
        self._uses.setdefault(use, set()).add(name)
        return cast("Module", self._held[name])

    def keep(self, names: set[str]) -> None:
        """Drop what has another name, and try again what failed."""
        for name in self._held.keys() - names:
            del self._held[name]
        for name in self._sizes.keys() - names:
            del self._sizes[name]
        self._failed.clear()
        self._told.clear()
        self.last_error = ""

    def _fill(self, name: str, load: Callable[[], nn.Module]) -> bool:
        if not self._may_enter(name):  # known before the file is read, except for the first time
            return False
        begun = self._clock()
        try:
            module = load()
        except Exception as error:  # a damaged file must not stop what tables can answer
            log.exception("the lower layers %s cannot be loaded", name)
            return self._fail(name, f"the lower layers {name[:17]} cannot be loaded: {error}")
        self.loads += 1
        self._sizes[name] = size_of(module)
        if self._sizes[name] > self.budget_bytes:
            return self._fail(name, f"the lower layers {name[:17]} do not fit HMI_LOWER_CACHE_MB")
        if not self._may_enter(name):
            return False
        if self._make_room(self._sizes[name]):
            now = self._clock()
            self._next_exchange = now + REST * (now - begun)
        self._held[name] = module
        return True

    def _may_enter(self, name: str) -> bool:
        """Whether it fits beside what is in use, and need not wait until others may be pushed out. Says so
        where not; what was never loaded has no size yet."""
        size = self._sizes.get(name, 0)
        if sum(self._sizes[other] for other in self._busy()) + size > self.budget_bytes:
            return self._refuse(name, "beside what the same batch computes with")
        if self.used_bytes + size > self.budget_bytes and self._clock() < self._next_exchange:
            return self._refuse(name, "beside what other batches compute with, and take turns")
        return True

    def _make_room(self, size: int) -> bool:
        """Push out what was used longest ago and is not in use; whether there was need to."""
        busy = self._busy()
        idle = [name for name in self._held if name not in busy]
        exchanged = False
        while self.used_bytes + size > self.budget_bytes:
            del self._held[idle.pop(0)]
            exchanged = True
        return exchanged

    def _busy(self) -> set[str]:
        return {name for names in self._uses.values() for name in names if name in self._held}

    def _refuse(self, name: str, why: str) -> bool:
        """Not now: texts get what the tables have. Logged once, since it may happen at every batch."""
        self.last_error = f"the lower layers {name[:17]} do not fit HMI_LOWER_CACHE_MB {why}"
        if name not in self._told:
            self._told.add(name)
            log.warning("%s; texts get what the tables have", self.last_error)
        return False

    def _fail(self, name: str, reason: str) -> bool:
        log.warning("%s", reason)
        self.last_error = reason
        self._failed.add(name)
        return False


def size_of(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    return sum(value.nbytes for value in module.state_dict().values())
