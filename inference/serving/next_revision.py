"""The revision of the manifest that will be served next, prepared beside what is served."""

import logging
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from inference.device_errors import raise_if_device_lost
from inference.manifest import ManifestWatcher
from inference.serving.background_task import BackgroundTask

log = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0
"""What could not be loaded is tried again after the first, and after twice as long each time, up to the
last."""


class Prepared(Protocol):
    """A revision, as far as it could be loaded."""

    @property
    def error(self) -> str:
        """Why not everything could be loaded, "" if it could."""


RevisionT = TypeVar("RevisionT", bound=Prepared)


class NextRevision(Generic[RevisionT]):
    """Prepares a revision in a thread of its own: at once when the manifest has changed, and with a back-off
    as long as something could not be loaded. To be used by one thread; any may read ``error`` and
    ``is_behind``."""

    def __init__(
        self,
        name: str,
        watcher: ManifestWatcher,
        prepare: Callable[[], RevisionT | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``prepare`` returns None if everything is loaded already. ``name``: of the thread."""
        self.error = ""
        """Why the last one could not be prepared at all, "" if it could."""
        self._task: BackgroundTask[RevisionT | None] = BackgroundTask(name)
        self._watcher, self._prepare, self._clock = watcher, prepare, clock
        self._retry_at: float | None = None
        self._wait_s = FIRST_RETRY_S

    @property
    def is_behind(self) -> bool:
        """Whether one is being prepared, or will be because the manifest has changed."""
        return self._task.under_way or self._watcher.has_changed()

    def take(self, *, wait: bool = False) -> RevisionT | None:
        """The revision that was prepared, once; None if there is none, or, without ``wait``, none yet. Raises
        DeviceLostError."""
        try:
            revision = self._task.take(wait=wait)
        except Exception as error:
            raise_if_device_lost(error)
            log.exception("the next revision cannot be prepared")
            self.error = f"the next revision cannot be prepared: {error}"
            self._retry_later()
            return None
        if revision is not None:
            self.error = ""
            if revision.error:
                self._retry_later()
            else:
                self._retry_at, self._wait_s = None, FIRST_RETRY_S
        return revision

    def begin(self) -> None:
        """Begin to prepare one, if it is time to and none is being prepared."""
        if self._task.under_way:
            return
        if self._watcher.has_changed() or (self._retry_at is not None and self._clock() >= self._retry_at):
            self._retry_at = None
            self._task.begin(self._prepare)

    def _retry_later(self) -> None:
        self._retry_at = self._clock() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LAST_RETRY_S)
