"""How long is waited for the body of a request, and for a client that reads an answer.

Whoever sends one holds what answers it, most often a thread, so it has to come on: each minute of waiting has
to bring so much of it, or its end. What was sent fast before buys no pauses later, and time in which nobody
waits for the sender does not count.
"""

from dataclasses import dataclass
from typing import Final

from tenants.base.errors import ErrorCode, HmiError

WAIT_S: Final = 60.0
LEAST_BYTES: Final = 240 * 1024
"""Of each WAIT_S: 4 KiB a second."""


def too_slow() -> HmiError:
    """What the sender of a body is told who was waited for in vain."""
    message = f"The body did not come whole, or less than {LEAST_BYTES:,} bytes of it in {WAIT_S:g} s."
    return HmiError(ErrorCode.BODY_TOO_SLOW, message)


@dataclass(slots=True)
class BodyTimeout:
    """With one sender, who is waited for no longer than ``left_s``."""

    left_s: float = WAIT_S
    _came: int = 0

    def came(self, size: int, *, after_s: float) -> None:
        """So many bytes came when they had been waited for so long."""
        self.left_s, self._came = max(self.left_s - after_s, 0.0), self._came + size
        if self._came >= LEAST_BYTES:
            self.left_s, self._came = WAIT_S, 0
