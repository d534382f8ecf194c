"""Keeping what is in memory in step with what the manifest names."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

log = logging.getLogger(__name__)
Loaded = TypeVar("Loaded")


def follow(loaded: dict[str, Loaded], wanted: Iterable[str], load: Callable[[str], Loaded]) -> str:
    """Make ``loaded`` hold what is wanted, as far as it can be loaded; the last reason why not, or ""."""
    names = set(wanted)
    for name in loaded.keys() - names:
        del loaded[name]
    reason = ""
    for name in sorted(names - loaded.keys()):
        try:
            loaded[name] = load(name)
        except Exception as error:  # one damaged artifact must not stop the serving of the others
            log.exception("%s cannot be loaded", name)
            reason = f"{name[:12]}: {error}"
    return reason
