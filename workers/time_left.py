"""The time left of a running job, as its pages, the API and the CLI show it."""

import math
from typing import Final

SLACK_S: Final = 5.0
SLACK_SHARE: Final = 0.2
"""A shown end is wrong if the estimated end is later by more than this share of the time left."""
SETTLE_S: Final = 5.0
SETTLE_SHARE: Final = 0.05
"""An estimate settles in this share of the time left, if its end moves by less than half of that."""


class TimeLeft:
    """Decides which estimates of the time left are shown, so that the figure only falls.

    The shown end never moves to a later moment. If an estimate lies clearly after it, nothing is shown until
    the estimates have settled. The first ones have to settle, too.
    """

    def __init__(self) -> None:
        self._ends_at = -math.inf
        self._settled_at = math.inf
        self._is_shown = False

    def shown(self, now: float, estimate: float | None) -> float | None:
        """The seconds left to show at ``now`` for an estimate made then; None if it cannot be trusted yet."""
        if estimate is None:
            return None
        ends_at, settle = now + estimate, max(SETTLE_S, SETTLE_SHARE * estimate)
        slack = max(SLACK_S, SLACK_SHARE * estimate) if self._is_shown else settle / 2
        if ends_at > self._ends_at + slack:
            self._ends_at, self._settled_at = ends_at, now + settle
        self._ends_at = min(self._ends_at, ends_at)
        self._is_shown = now >= self._settled_at
        return max(0.0, self._ends_at - now) if self._is_shown else None
