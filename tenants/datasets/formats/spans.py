"""Converts spans of characters in a text, as annotation tools export them, into tokens and IOB2 tags."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import regex

WORD: Final = regex.compile(
    r"\p{Han}\p{M}*"
    r"|[[\p{L}\p{M}\p{N}_]--\p{Han}][[\p{L}\p{M}\p{N}_\u200c\u200d]--\p{Han}]*"
    r"|[^\s\p{Cf}\p{Cc}](?:\p{M}|\p{Emoji_Modifier}|\u200d\S)*",
    regex.V1,
)
"""A Chinese character, a run of other letters and digits, or any other visible character alone."""
_PAIR: Final = regex.compile("[\U00010000-\U0010ffff]")
MAX_OFFSET: Final = 1 << 26
"""Beyond the longest text: offsets are not trusted with memory."""

START_NAMES: Final = ("start", "start_offset")
END_NAMES: Final = ("end", "end_offset")
LABEL_NAMES: Final = ("label", "labels")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters ``start`` up to ``end`` of a text, and what they are."""

    start: int
    end: int
    label: str


def parse_spans(text: str, found: Sequence[Any]) -> list[Span]:
    """The spans in order, each without white space at its ends. Raises ``ValueError`` that says why not.

    A span is ``[start, end, label]``, or an object with ``start``, ``end`` (or ``start_offset``,
    ``end_offset``) and ``label`` (or ``labels`` with one). If it has its ``text``, its offsets may count
    UTF-16 units, as browsers do.
    """
    units = _Utf16Offsets(text)
    spans: list[Span] = []
    for written in sorted({_span(text, units, one) for one in found}):
        span = _trimmed(text, written)
        before = spans[-1] if spans else None
        if span == before:
            continue
        if before is not None and span.start < before.end:
            raise ValueError(
                f"the spans {_shown(text, before)} and {_shown(text, span)} overlap; a token has one tag"
            )
        spans.append(span)
    return spans


def tag_words(text: str, spans: Sequence[Span]) -> tuple[list[str], list[str]]:
    """The words of the text and their IOB2 tags. A word is also cut where a span begins or ends."""
    borders = sorted({border for span in spans for border in (span.start, span.end)})
    places = [place for word in WORD.finditer(text) for place in _cut(word.start(), word.end(), borders)]
    return [text[start:end] for start, end in places], _tags(places, spans)


def tag_tokens(tokens: Sequence[Any], spans: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Tokens with offsets (``text``, ``start``, ``end``) and their IOB2 tags. White space is no token.

    Raises ``ValueError``, also for a span that begins or ends inside a token.
    """
    places: list[tuple[int, int, str]] = []
    parts: list[str] = []
    for token in tokens:
        word = token.get("text") if isinstance(token, dict) else None
        if type(word) is not str:
            raise ValueError("a token is an object with 'text', 'start' and 'end'")
        start, end = _offset(token, START_NAMES), _offset(token, END_NAMES)
        gap = start - (places[-1][1] if places else 0)
        if gap < 0 or end - start != len(word):
            raise ValueError(f"the token {word[:60]!r} is not where its 'start' and 'end' say")
        places.append((start, end, word))
        parts += [" " * gap, word]
    text = "".join(parts)
    parsed = parse_spans(text, spans)
    starts, ends = {start for start, _, _ in places}, {end for _, end, _ in places}
    for span in parsed:
        if span.start not in starts or span.end not in ends:
            raise ValueError(f"the span {_shown(text, span)} begins or ends inside a token")
    words = [(start, end, word) for start, end, word in places if word.strip()]
    return [word for _, _, word in words], _tags([(start, end) for start, end, _ in words], parsed)


def _span(text: str, units: "_Utf16Offsets", found: Any) -> Span:
    if isinstance(found, list) and len(found) == 3:
        start, end, label = found
    elif isinstance(found, dict):
        start, end = _offset(found, START_NAMES), _offset(found, END_NAMES)
        label = next((found[name] for name in LABEL_NAMES if name in found), None)
        start, end = units.as_written(start, end, found.get("text"))
    else:
        raise ValueError("a span is [start, end, label], or an object with 'start', 'end' and 'label'")
    if isinstance(label, list):
        if len(label) != 1:
            raise ValueError(f"the span from {start} to {end} has {len(label)} labels; a token has one tag")
        label = label[0]
    if type(label) is not str:
        raise ValueError(f"the span from {start} to {end} has no label")
    if not (type(start) is type(end) is int and 0 <= start < end <= len(text)):
        raise ValueError(f"the span from {start} to {end} is not inside the text of {len(text):,} characters")
    return Span(start, end, label)


def _offset(found: dict[str, Any], names: Iterable[str]) -> int:
    offset = next((found[name] for name in names if name in found), None)
    if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
        raise ValueError(f"a {next(iter(names))!r} is missing, or is not a number of characters")
    return offset


class _Utf16Offsets:
    """Converts offsets of UTF-16 units in a text into offsets of characters."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _pairs(self) -> list[int]:
        """Where the characters begin, in units, that are pairs of units."""
        return [match.start() + before for before, match in enumerate(_PAIR.finditer(self._text))]

    def as_written(self, start: int, end: int, written: Any) -> tuple[int, int]:
        """The offsets in characters, where the span says which text is there."""
        if not isinstance(written, str) or self._text[start:end] == written:
            return start, end
        first, last = (offset - bisect_left(self._pairs, offset) for offset in (start, end))
        if self._text[first:last] != written:
            raise ValueError(f"the text from {start} to {end} is not {written[:60]!r}")
        return first, last


def _trimmed(text: str, span: Span) -> Span:
    inside = text[span.start : span.end]
    if not inside.strip():
        raise ValueError(f"the span from {span.start} to {span.end} is blank")
    end = span.start + len(inside.rstrip())
    return Span(end - len(inside.strip()), end, span.label)


def _cut(start: int, end: int, borders: Sequence[int]) -> Iterable[tuple[int, int]]:
    inside = borders[bisect_left(borders, start + 1) : bisect_left(borders, end)]
    return zip((start, *inside), (*inside, end), strict=True)


def _tags(places: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[str]:
    """The tag of each place; the first one of a span begins it."""
    tags, starts, begun = [], [span.start for span in spans], -1
    for start, _ in places:
        at = bisect_left(starts, start + 1) - 1
        if at < 0 or start >= spans[at].end:
            tags.append("O")
            continue
        tags.append(f"{'I' if at == begun else 'B'}-{spans[at].label}")
        begun = at
    return tags


def _shown(text: str, span: Span) -> str:
    return f"{text[span.start : span.end][:40]!r} ({span.start} to {span.end}, {span.label[:40]})"
