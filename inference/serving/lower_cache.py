"""The lower layers that compute what tables lack: loaded in the background when first wanted, bounded in
memory and in time."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock, Thread
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
    """Lower layers by name, within a budget of bytes: those used last stay. What is still being loaded, does
    not fit beside what is in use, or may not push out others yet, is None: texts then get what the tables
    have. So is what can never fit or cannot be loaded, and that is not tried again before ``try_again``.

    How big something is, is known once it was loaded; the first time it enters only where there is room. For
    any threads.
    """

    def __init__(self, *, budget_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.loads = 0
        self.budget_bytes = budget_bytes
        self._clock = clock
        self._lock = Lock()
        self._held: OrderedDict[str, nn.Module] = OrderedDict()
        self._coming: set[str] = set()
        self._unwanted: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._uses: WeakKeyDictionary[Use, set[str]] = WeakKeyDictionary()
        self._failed: set[str] = set()
        self._troubles: dict[str, str] = {}
        self._next_exchange = 0.0

    @property
    def used_bytes(self) -> int:
        """What is held, and room that is kept for what is being loaded."""
        with self._lock:
            return self._used()

    @property
    def last_error(self) -> str:
        """What was refused last and has not come since, or ""."""
        with self._lock:
            return next(reversed(self._troubles.values()), "")

    def get(self, name: str, load: Callable[[], Module], use: Use, *, wait: bool = False) -> Module | None:
        """What is held under the name; it stays while ``use`` is held. What is not begins to be loaded, by a
        thread of its own and one at a time, or, with ``wait``, at once. One name always has one type."""
        with self._lock:
            begins = name not in self._held and (wait or not self._coming) and self._may_enter(name)
            exchanged = begins and self._make_room(name)
        if begins and wait:
            self._load(name, load, exchanged)
        elif begins:
            Thread(target=self._load, args=[name, load, exchanged], name="lower layers", daemon=True).start()
        with self._lock:
            if name not in self._held:
                return None
            self._held.move_to_end(name)
            self._uses.setdefault(use, set()).add(name)
            return cast("Module", self._held[name])

    def try_again(self) -> None:
        """Forget what failed."""
        with self._lock:
            self._failed.clear()
            self._troubles.clear()

    def keep(self, names: set[str]) -> None:
        """Drop what has another name, also when its loading ends only later."""
        with self._lock:
            self._unwanted = self._coming - names
            for name in self._held.keys() - names:
                del self._held[name]
            for name in self._sizes.keys() - names - self._coming:
                del self._sizes[name]
            for name in self._troubles.keys() - names:
                del self._troubles[name]

    def _load(self, name: str, load: Callable[[], nn.Module], exchanged: bool) -> None:
        """Room was made for what is known to need it."""
        begun = self._clock()
        found: nn.Module | str
        try:
            found = load()
        except Exception as error:  # a damaged file must not stop what tables can answer
            log.exception("the lower layers %s cannot be loaded", name)
            found = f"the lower layers {name[:17]} cannot be loaded: {error}"
        with self._lock:
            self.loads += 1
            self._coming.discard(name)
            if exchanged:
                now = self._clock()
                self._next_exchange = now + REST * (now - begun)
            if isinstance(found, str):
                self._fail(name, found)
            else:
                self._enter(name, found)

    def _enter(self, name: str, module: nn.Module) -> None:
        size = self._sizes[name] = size_of(module)
        if size > self.budget_bytes:
            self._fail(name, f"the lower layers {name[:17]} do not fit HMI_LOWER_CACHE_MB")
        elif name not in self._unwanted and self._used() + size <= self.budget_bytes:
            self._held[name] = module
            self._troubles.pop(name, None)

    def _may_enter(self, name: str) -> bool:
        """Whether it fits beside what is in use, and need not wait until others may be pushed out. Says so
        where not; what was never loaded has no size yet."""
        if name in self._failed or name in self._coming:
            return False
        size = self._sizes.get(name, 0)
        if self._bytes_of(self._busy()) + size > self.budget_bytes:
            return self._refuse(name, "beside what the same batch computes with")
        if self._used() + size > self.budget_bytes and self._clock() < self._next_exchange:
            return self._refuse(name, "beside what other batches compute with, and take turns")
        return True

    def _make_room(self, name: str) -> bool:
        """Keep room for it from now on: push out what was used longest ago and is not in use; whether there
        was need to."""
        self._coming.add(name)
        busy = self._busy()
        idle = [other for other in self._held if other not in busy]
        exchanged = False
        while idle and self._used() > self.budget_bytes:
            del self._held[idle.pop(0)]
            exchanged = True
        return exchanged

    def _used(self) -> int:
        return self._bytes_of(self._held.keys() | self._coming)

    def _busy(self) -> set[str]:
        in_use = {name for names in [*self._uses.values()] for name in names}
        return (in_use & self._held.keys()) | self._coming

    def _bytes_of(self, names: Iterable[str]) -> int:
        return sum(self._sizes.get(name, 0) for name in names)

    def _refuse(self, name: str, why: str) -> bool:
        """Not now: texts get what the tables have. Logged once, since it may happen at every batch."""
        told = name in self._troubles
        self._troubles[name] = f"the lower layers {name[:17]} do not fit HMI_LOWER_CACHE_MB {why}"
        if not told:
            log.warning("%s; texts get what the tables have", self._troubles[name])
        return False

    def _fail(self, name: str, reason: str) -> None:
        log.warning("%s", reason)
        self._troubles[name] = reason
        self._failed.add(name)


def size_of(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    return sum(value.nbytes for value in module.state_dict().values())
