"""JSON objects whose keys occur once: of two values for one key, nobody can know which one is meant."""

from collections import Counter
from typing import Any, Final

MAX_KEY_SHOWN: Final = 60


class DuplicateKeyError(ValueError):
    """The ``key``, shortened, occurs twice in a JSON object."""

    def __init__(self, key: str) -> None:
        self.key = key[:MAX_KEY_SHOWN]
        super().__init__(f"the key {self.key!r} occurs twice in one object")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs: an ``object_pairs_hook`` for ``json``. Raises ``DuplicateKeyError``."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DuplicateKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found
