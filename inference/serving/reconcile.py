"""Keeping what is in memory in step with what the manifest names."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

log = logging.getLogger(__name__)
Loaded = TypeVar("Loaded")


def follow(
    loaded: Mapping[str, Loaded], wanted: Iterable[str], load: Callable[[str], Loaded]
) -> tuple[dict[str, Loaded], str]:
    """All that is wanted, as far as it is ``loaded`` or can be; and the last reason why something cannot, or
    ""."""
    names = set(wanted)
    found = {name: there for name, there in loaded.items() if name in names}
    reason = ""
    for name in sorted(names - found.keys()):
        try:
            found[name] = load(name)
        except Exception as error:  # one damaged artifact must not stop the serving of the others
            log.exception("%s cannot be loaded", name)
            reason = f"{name[:12]}: {error}"
    return found, reason
