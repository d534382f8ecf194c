"""Follows the manifest: prepares its next revision beside the one that is served, and swaps it in."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Final, Generic, TypeVar

from inference.device_errors import raise_if_device_lost
from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.manifest import Manifest, ManifestWatcher, ServedGenerativeHplm, ServedHplm
from inference.serving.loading import Checksums, Refusals

log = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0
"""What could not be loaded is tried again after the first, and after twice as long each time, up to the
last."""

Made = TypeVar("Made")


class NotServedError(HplmError):
    """The model cannot be served, by this revision."""


class BackgroundTask(Generic[Made]):
    """One piece of work at a time, in a daemon thread. One thread calls the methods; it takes the result."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._future: Future[Made] | None = None

    @property
    def under_way(self) -> bool:
        """Whether something was begun and not yet taken."""
        return self._future is not None

    def begin(self, work: Callable[[], Made]) -> None:
        """Start it. Nothing may be under way."""
        assert self._future is None
        self._future = Future[Made]()
        Thread(target=_run, args=(work, self._future), name=self._name, daemon=True).start()

    def is_done_within(self, seconds: float) -> bool:
        """Wait for the work, at most for so long. Returns whether it is done, or none was begun."""
        return self._future is None or not wait([self._future], timeout=seconds).not_done

    def take(self, *, wait: bool = False) -> Made | None:
        """The result of the work, once; raises what it raised. None if nothing was begun, or, without
        ``wait``, if it is not done yet."""
        future = self._future
        if future is None or not (wait or future.done()):
            return None
        self._future = None
        try:
            return future.result()
        finally:
            del future  # an exception would keep it, it the exception, and that all that had been loaded


def _run(work: Callable[[], Made], future: "Future[Made]") -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - `take` raises it
        future.set_exception(error)
        del future  # see `take`


@dataclass(frozen=True, slots=True)
class Revision:
    """All that one manifest names of one kind, as far as it could be loaded. ``error``: why not all, "" if
    all."""

    manifest: Manifest
    error: str


RevisionT = TypeVar("RevisionT", bound=Revision)


class Catalogue(ABC, Generic[RevisionT]):
    """What is served, in memory. What cannot be loaded is reported, is not served, and is tried again with a
    back-off.

    A thread prepares the next revision. The loop's thread goes on with the one before, and swaps the new one
    in with `keep_up`. Any thread may read the properties and call `reread`.
    """

    def __init__(
        self,
        name: str,
        watcher: ManifestWatcher,
        first: RevisionT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name``: of the thread. ``first``: what is served before the first revision."""
        self._watcher, self._now, self._clock = watcher, first, clock
        self._checksums, self._refusals = Checksums(), Refusals()
        self._task: BackgroundTask[RevisionT | None] = BackgroundTask(name)
        self._failure = ""  # why the last revision could not be prepared at all
        self._retry_at: float | None = None
        self._wait_s = FIRST_RETRY_S

    @property
    def manifest(self) -> Manifest:
        """What is served, as far as it could be loaded."""
        return self._now.manifest

    @property
    def last_error(self) -> str:
        """What could not be loaded last, "" when all is well."""
        return self._failure or self._now.error

    @property
    def is_behind(self) -> bool:
        """Whether a newer revision is being prepared, or will be because the manifest has changed."""
        return self._task.under_way or self._watcher.has_changed()

    def reread(self) -> None:
        """Take the manifest for new, and try again what could not be loaded."""
        self._refusals.forget()
        self._watcher.invalidate()

    def refresh(self) -> bool:
        """Follow the manifest to its current revision, however long that takes. Returns whether it had
        changed."""
        changed = False
        while self.is_behind:
            changed |= self.keep_up(wait=True)
        return changed

    def keep_up(self, *, wait: bool = False) -> bool:
        """Serve the next revision if it is prepared, and begin to prepare one if the manifest is newer still
        or something could not be loaded: microseconds, unless ``wait`` is set. Returns whether another
        revision is served from now on. Raises DeviceLostError."""
        revision = self._take(wait=wait)
        if revision is not None:
            self._swap(revision)
        if not self._task.under_way and (self._watcher.has_changed() or self._is_retry_due()):
            self._retry_at = None
            self._task.begin(self._prepare)
        return revision is not None

    @abstractmethod
    def _load(self, manifest: Manifest) -> RevisionT:
        """The revision of a manifest, in memory; what is there already is not loaded again. Called in the
        thread that prepares."""

    @abstractmethod
    def _swap(self, revision: RevisionT) -> None:
        """Serve this revision from now on."""

    def _prepare(self) -> RevisionT | None:
        """The next revision; None if there is none, and nothing that could not be loaded."""
        manifest, now = self._watcher.current(), self._now
        # Before the first revision, nothing was retired.
        if not manifest.revision or (manifest is now.manifest and not now.error):
            return None
        return self._load(manifest)

    def _take(self, *, wait: bool) -> RevisionT | None:
        """The revision that was prepared, once."""
        try:
            revision = self._task.take(wait=wait)
        except Exception as error:
            raise_if_device_lost(error)
            log.exception("the next revision cannot be prepared")
            self._failure = f"the next revision cannot be prepared: {error}"
            self._retry_later()
            return None
        if revision is not None:
            self._failure = ""
            if revision.error:
                self._retry_later()
            else:
                self._retry_at, self._wait_s = None, FIRST_RETRY_S
        return revision

    def _is_retry_due(self) -> bool:
        return self._retry_at is not None and self._clock() >= self._retry_at

    def _retry_later(self) -> None:
        self._retry_at = self._clock() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LAST_RETRY_S)


ServedT = TypeVar("ServedT", bound="ServedHplm | ServedGenerativeHplm")


def require_served(model: ModelIdentity, served: ServedT | None, root: str = "") -> ServedT:
    """What the manifest says of the model. Raises NotServedError unless it names the model with the digest,
    and under the ``root`` (digest; "": any), that were asked for."""
    if served is None:
        raise NotServedError("not_found", f"{model} is not served")
    if served.digest != model.digest:
        raise NotServedError("inference_failed", f"{model} is served with another digest than was asked for")
    if root and served.root != root:
        message = f"{model} has another root than the one its tokens were read for"
        raise NotServedError("model_not_ready", message)
    return served
