"""Server-sent events, parsed by the standard.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation: a line ends at CR,
LF or CRLF. httpx's ``iter_lines`` also splits at U+2028 and others, which JSON strings may contain.
"""

import codecs
import io
from collections.abc import Iterable, Iterator


class EventParser:
    """Collects the data of events from the bytes of a response. Other fields and comments are ignored."""

    def __init__(self) -> None:
        utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._line = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes, *, final: bool = False) -> Iterator[str]:
        """Yield the data of each event that ends in this chunk. An event without an empty line at its end is
        dropped."""
        *lines, rest = self._decoder.decode(chunk, final).split("\n")
        for line in lines:
            yield from self._end_line(self._line + line)
            self._line = ""
        self._line += rest

    def _end_line(self, line: str) -> Iterator[str]:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif not line and self._data:
            yield "\n".join(self._data)
            self._data = []


def event_data(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event."""
    parser = EventParser()
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.feed(b"", final=True)
