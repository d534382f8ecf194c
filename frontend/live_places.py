"""How many streams may be open."""

import threading
import weakref

from django.conf import settings


class Places:
    """One for each stream, taken before it begins, so that no two get the last; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    @property
    def taken(self) -> int:
        """How many there are in use."""
        return self._taken

    def take(self) -> bool:
        """Whether there was one left of HMI_LIVE_STREAMS."""
        with self._lock:
            if self._taken >= settings.HMI_LIVE_STREAMS:
                return False
            self._taken += 1
            return True

    def leave_with(self, stream: object) -> None:
        """Give one back when nobody has the stream any more, whether or not anybody ever read it."""
        weakref.finalize(stream, self._leave)

    def _leave(self) -> None:
        with self._lock:
            self._taken -= 1


places = Places()
