"""What the launcher has started again: a small file, written by the launcher and read by the dashboard."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

FILE_NAME = "restarts.json"
TOLD_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Restart:
    """One process that ended by itself: how often since the product was started, and when and how the last
    time."""

    name: str
    times: int
    last_at: str
    how: str


class RestartRecord:
    """Of one run of the launcher, which alone writes it."""

    def __init__(self, file: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file = file
        self._clock = clock
        self._found: dict[str, Restart] = {}

    def add(self, name: str, how: str) -> None:
        """Write down that it has ended and is started again. A disk that is full is no reason not to."""
        times = self._found[name].times + 1 if name in self._found else 1
        self._found[name] = Restart(name, times, self._clock().isoformat(), how)
        partial = self._file.with_suffix(".partial")
        try:
            partial.write_text(json.dumps([asdict(one) for one in self._found.values()]), encoding="utf-8")
            partial.replace(self._file)
        except OSError:
            partial.unlink(missing_ok=True)


def recent_restarts(folder: Path, now: datetime) -> list[Restart]:
    """Those of the last day, the newest first; none where no launcher has written any."""
    try:
        told = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        found = [Restart(**one) for one in told]
        recent = [one for one in found if now - datetime.fromisoformat(one.last_at) < TOLD_FOR]
    except (OSError, ValueError, TypeError):
        return []
    return sorted(recent, key=lambda one: one.last_at, reverse=True)
