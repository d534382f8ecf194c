"""Ends a text at the first stop string, while it is being generated."""

from collections.abc import Sequence


class StopStrings:
    """Cuts one text, which arrives in pieces, at a stop string.

    The one that counts is complete first; of several that are complete with the same character, the longest.
    So the result does not depend on how the text is divided into pieces.
    """

    def __init__(self, stop_strings: Sequence[str]) -> None:
        """Raises ValueError for an empty stop string."""
        if not all(stop_strings):
            raise ValueError("a stop string has at least one character")
        self._stop_strings = sorted(stop_strings, key=len, reverse=True)
        self._held = ""
        self.found: str | None = None
        """The stop string that the text was cut at."""

    def push(self, text: str) -> str:
        """What is now known to precede all stop strings. The end of the text is held back where it may be the
        beginning of one. Nothing follows once one is found."""
        if self.found is not None:
            return ""
        text = self._held + text
        if (end := self._first_end(text)) is not None:
            self._held = ""
            self.found = next(stop for stop in self._stop_strings if text.endswith(stop, 0, end))
            return text[: end - len(self.found)]
        safe = len(text) - self._begun(text)
        self._held = text[safe:]
        return text[:safe]

    def finish(self) -> str:
        """What is held back, once the text has ended."""
        held, self._held = self._held, ""
        return held

    def _first_end(self, text: str) -> int | None:
        """Behind the last character of the stop string that is complete first."""
        ends = [at + len(stop) for stop in self._stop_strings if (at := text.find(stop)) >= 0]
        return min(ends, default=None)

    def _begun(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a stop string."""
        longest = max(map(len, self._stop_strings), default=1)
        lengths = range(min(len(text), longest - 1), 0, -1)
        starts = (
            length for length in lengths for stop in self._stop_strings if stop.startswith(text[-length:])
        )
        return next(starts, 0)
