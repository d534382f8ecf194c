"""Matches PEFT's patterns of module names, such as the keys of `alpha_pattern`, in bounded time.

PEFT uses Python's regular expressions, which can take exponential time. Uploaded patterns are not compiled.
A subset is supported: names, `.`, escaped punctuation, `\\d`, `\\w`, lists and ranges such as `[0-9]`, the
repetitions `?`, `*`, `+` of one character, groups such as `(query|key)`, which `?` may follow, `|`, `^`
and `$`. The time is bounded by the product of the lengths of the pattern and the name.
"""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from inference.hplm.adapter_io.adapter_folder import unsupported_adapter

MAX_PATTERN_LENGTH: Final = 200
"""Characters of one pattern."""
MAX_PATTERNS: Final = 512
"""Patterns of one object. PEFT writes at most one for each linear layer."""
MAX_GROUP_DEPTH: Final = 10
REPETITIONS: Final = "?*+"
UNSUPPORTED_REPETITIONS: Final = "?*+{"
PLAIN_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_-")
ESCAPED: Final[Mapping[str, frozenset[str]]] = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    **{sign: frozenset(sign) for sign in ".-_"},
}
Characters = frozenset[str] | None
"""The characters that match; None: any."""
Positions = frozenset[int]
"""Indices in a name, up to which a part of a pattern has matched."""


class _Part(Protocol):
    def ends(self, name: str, starts: Positions) -> Positions:
        """Where the part can end in the name if it begins at one of `starts`."""
        ...


@dataclass(frozen=True, slots=True)
class _Anchor:
    at_end: bool

    def ends(self, name: str, starts: Positions) -> Positions:
        return starts & {len(name) if self.at_end else 0}


@dataclass(frozen=True, slots=True)
class _Step:
    characters: Characters
    optional: bool
    repeated: bool

    def _accepts(self, character: str) -> bool:
        return self.characters is None or character in self.characters

    def ends(self, name: str, starts: Positions) -> Positions:
        found = set(starts) if self.optional else set()
        moving = False
        for at, character in enumerate(name):
            moving = (at in starts or (moving and self.repeated)) and self._accepts(character)
            if moving:
                found.add(at + 1)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Group:
    alternatives: tuple[tuple[_Part, ...], ...]
    optional: bool

    def ends(self, name: str, starts: Positions) -> Positions:
        found = set(starts) if self.optional else set()
        for parts in self.alternatives:
            positions = starts
            for part in parts:
                if not positions:
                    break
                positions = part.ends(name, positions)
            found |= positions
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A parsed pattern."""

    group: _Group

    def matches(self, name: str) -> bool:
        """Whether it matches the whole name or its end after a dot, as `peft.utils.get_pattern_key` does."""
        after_dots = {at + 1 for at, character in enumerate(name) if character == "."}
        return len(name) in self.group.ends(name, frozenset({0, *after_dots}))

    def matches_whole(self, name: str) -> bool:
        """Whether it matches the whole name, as PEFT's `target_modules` does if it is a string."""
        return len(name) in self.group.ends(name, frozenset({0}))


def check_patterns(patterns: Any, field: str) -> None:
    """Raise HplmError if it is not an object of supported patterns."""
    if not isinstance(patterns, Mapping):
        raise unsupported_adapter(f"{field} must be an object")
    if len(patterns) > MAX_PATTERNS:
        raise unsupported_adapter(f"{field} has {len(patterns):,} patterns; the maximum is {MAX_PATTERNS}")
    for pattern in patterns:
        try:
            name_pattern(pattern)
        except ValueError as error:
            raise unsupported_adapter(
                f"{field}: the pattern {pattern[:60]!r} cannot be used: {error}"
            ) from error


@lru_cache(maxsize=MAX_PATTERNS)
def name_pattern(pattern: str) -> NamePattern:
    """Parse a pattern. Raises ValueError for unsupported syntax."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"it is longer than {MAX_PATTERN_LENGTH} characters")
    return NamePattern(_Parser(pattern).parse())


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> _Group:
        alternatives = self._alternatives(depth=0)
        if self._at < len(self._text):
            raise ValueError("')' has no '('")
        return _Group(alternatives, optional=False)

    def _next_is(self, signs: str) -> bool:
        return self._at < len(self._text) and self._text[self._at] in signs

    def _take(self, signs: str) -> str:
        """The next character if it is one of `signs`, else ""."""
        if not self._next_is(signs):
            return ""
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self, depth: int) -> tuple[tuple[_Part, ...], ...]:
        found: list[tuple[_Part, ...]] = []
        while True:
            parts: list[_Part] = []
            while self._at < len(self._text) and not self._next_is("|)"):
                parts.append(self._part(depth))
            found.append(tuple(parts))
            if not self._take("|"):
                return tuple(found)

    def _part(self, depth: int) -> _Part:
        if anchor := self._take("^$"):
            return _Anchor(at_end=anchor == "$")
        if self._take("("):
            return self._group(depth + 1)
        characters = self._characters()
        sign = self._take(REPETITIONS)
        if sign:
            self._take("?")  # It prefers short matches, which does not change whether the whole name matches.
        if sign and self._next_is(UNSUPPORTED_REPETITIONS):
            raise ValueError(f"{self._text[self._at]!r} directly follows another repetition")
        return _Step(characters, optional=sign in ("?", "*"), repeated=sign in ("*", "+"))

    def _group(self, depth: int) -> _Group:
        if depth > MAX_GROUP_DEPTH:
            raise ValueError(f"its groups are nested more than {MAX_GROUP_DEPTH} deep")
        if self._take("?") and not self._take(":"):
            raise ValueError("'(?' is not supported")
        alternatives = self._alternatives(depth)
        if not self._take(")"):
            raise ValueError("'(' has no ')'")
        optional = bool(self._take("?"))
        if self._next_is(UNSUPPORTED_REPETITIONS):
            raise ValueError(f"{self._text[self._at]!r} after a group is not supported")
        return _Group(alternatives, optional)

    def _characters(self) -> Characters:
        """The characters that match at one position."""
        text, at = self._text, self._at
        sign = text[at]
        if sign in PLAIN_CHARACTERS or sign == ".":
            self._at += 1
            return None if sign == "." else frozenset(sign)
        if sign == "\\":
            escaped = text[at + 1 : at + 2]
            if escaped not in ESCAPED:
                raise ValueError(f"{text[at : at + 2]!r} is not a supported escape")
            self._at += 2
            return ESCAPED[escaped]
        if sign == "[":
            end = text.find("]", at)
            self._at = end + 1
            return _parse_list(text[at + 1 : end] if end > 0 else "")
        raise ValueError(f"{sign!r} is not supported")


def _parse_list(text: str) -> frozenset[str]:
    """The characters of `0-9`, `qkv` or both."""
    found: set[str] = set()
    at = 0
    while at < len(text):
        first, last, step = text[at], text[at], 1
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            last, step = text[at + 2], 3
        if first not in PLAIN_CHARACTERS or last not in PLAIN_CHARACTERS or first > last:
            raise ValueError(f"[{text}] is not a list of letters and digits")
        found.update(map(chr, range(ord(first), ord(last) + 1)))
        at += step
    if not found:
        raise ValueError("its square brackets are empty or not closed")
    return frozenset(found)
