"""A clock by which whoever sends a body sends it slowly."""

from itertools import count
from types import SimpleNamespace

import pytest


def slow_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on ten seconds pass whenever somebody who waits for a body looks at the clock."""
    ticks = count(step=10)
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)))
    for module in ("wsgi_threads", "request_body"):
        monkeypatch.setattr(f"hmi_site.http.{module}.time", clock)
