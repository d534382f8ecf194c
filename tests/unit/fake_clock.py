"""A clock that tests set."""


class FakeClock:
    """Its time is ``now``, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
