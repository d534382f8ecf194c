"""The lower layers that compute what tables lack: loaded when first wanted, bounded in memory."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, cast

from torch import nn

log = logging.getLogger(__name__)
Module = TypeVar("Module", bound=nn.Module)


class LowerCache:
    """Lower layers by name, within a budget of bytes: those used last stay. What does not fit or cannot be
    loaded is None, and is not tried again before the next ``keep``: texts then get what the tables have."""

    def __init__(self, *, budget_bytes: int) -> None:
        self.last_error = ""
        self.loads = 0
        self._budget = budget_bytes
        self._held: OrderedDict[str, nn.Module] = OrderedDict()
        self._failed: set[str] = set()

    @property
    def used_bytes(self) -> int:
        return sum(size_of(module) for module in self._held.values())

    def get(self, name: str, load: Callable[[], Module]) -> Module | None:
        """What is held under the name, loaded first where need be. One name always has one type."""
        if name in self._failed:
            return None
        if name not in self._held and not self._fill(name, load):
            return None
        self._held.move_to_end(name)
        return cast("Module", self._held[name])

    def keep(self, names: set[str]) -> None:
        """Drop what has another name, and try again what failed."""
        for name in self._held.keys() - names:
            del self._held[name]
        self._failed.clear()
        self.last_error = ""

    def _fill(self, name: str, load: Callable[[], nn.Module]) -> bool:
        try:
            module = load()
        except Exception as error:  # a damaged file must not stop what tables can answer
            log.exception("the lower layers %s cannot be loaded", name)
            return self._fail(name, f"the lower layers {name[:17]} cannot be loaded: {error}")
        self.loads += 1
        if size_of(module) > self._budget:
            return self._fail(name, f"the lower layers {name[:17]} do not fit HMI_LOWER_CACHE_MB")
        self._held[name] = module
        while self.used_bytes > self._budget:
            self._held.popitem(last=False)
        return True

    def _fail(self, name: str, reason: str) -> bool:
        log.warning("%s", reason)
        self.last_error = reason
        self._failed.add(name)
        return False


def size_of(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    return sum(value.nbytes for value in module.state_dict().values())
