"""Damaged artifacts, remembered: whoever asks for one again costs no reading of its files."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from inference.errors import HplmError
from inference.serving.loading import Stamp, stamp_of

Loaded = TypeVar("Loaded")
REMEMBERED_S: Final = 30.0


class Refusals:
    """What could not be loaded of late, by digest. It is tried again when a file has changed, and in any case
    after half a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, list[Stamp | None], HplmError]] = {}

    def attempt(self, digest: str, files: Iterable[Path], load: Callable[[], Loaded]) -> Loaded:
        """What ``load`` gives; its HplmError, or the one that it raised last."""
        stamps = [_stamp(path) for path in files]
        until, before, error = self._known.pop(digest, (0.0, [], None))
        if error is not None and stamps == before and self._clock() < until:
            self._known[digest] = until, before, error
            raise HplmError(error.code, error.message)
        try:
            return load()
        except HplmError as error:
            self._remember(digest, stamps, error)
            raise

    def forget(self) -> None:
        """Let everything be tried again."""
        self._known = {}

    def _remember(self, digest: str, stamps: list[Stamp | None], error: HplmError) -> None:
        now = self._clock()
        self._known = {name: known for name, known in self._known.items() if known[0] > now}
        self._known[digest] = now + REMEMBERED_S, stamps, HplmError(error.code, error.message)


def _stamp(path: Path) -> Stamp | None:
    try:
        return stamp_of(path)
    except HplmError:
        return None
