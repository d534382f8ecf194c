"""The full-context lower layers in memory: those used last, within a budget of bytes."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from torch import nn

from inference.hplm.encoder import FullLower


class LowerCache:
    """Lower layers by name. What is asked for is always given, and loaded first where it must be: which
    layers happen to be in memory changes how long an answer takes, never what it is. Beyond the budget those
    go that were used longest ago; a batch that computes with them keeps them until it ends. For any threads.
    """

    def __init__(self, *, budget_bytes: int) -> None:
        self.loads = 0
        self.budget_bytes = budget_bytes
        self._held: OrderedDict[str, FullLower] = OrderedDict()
        self._lock, self._loading = Lock(), Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._held

    @property
    def used_bytes(self) -> int:
        """What is held."""
        with self._lock:
            return self._used()

    @property
    def has_room(self) -> bool:
        """Whether it holds less than half of its budget."""
        return 2 * self.used_bytes < self.budget_bytes

    def get(self, name: str, load: Callable[[], FullLower]) -> FullLower:
        """The layers of this name. Raises what `load` does; one is loaded at a time."""
        found = self._find(name)
        if found is None:
            with self._loading:
                found = self._find(name)
                if found is None:
                    found = load()
                    self._hold(name, found)
        return found

    def keep(self, names: Iterable[str]) -> None:
        """Drop all others."""
        with self._lock:
            for name in self._held.keys() - set(names):
                del self._held[name]

    def resize(self, budget_bytes: int) -> None:
        """Change the budget, and drop at once what is beyond it."""
        with self._lock:
            self.budget_bytes = budget_bytes
            self._make_room(least=0)

    def _find(self, name: str) -> FullLower | None:
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
            return self._held.get(name)

    def _hold(self, name: str, module: FullLower) -> None:
        with self._lock:
            self.loads += 1
            self._held[name] = module
            self._make_room(least=1)

    def _make_room(self, least: int) -> None:
        while len(self._held) > least and self._used() > self.budget_bytes:
            self._held.popitem(last=False)

    def _used(self) -> int:
        return sum(map(size_of, self._held.values()))


def size_of(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    return sum(value.nbytes for value in module.state_dict().values())
