"""Matches the patterns of PEFT's `rank_pattern` and `alpha_pattern` in bounded time.

PEFT uses Python's regular expressions, which can take exponential time. Uploaded patterns are not compiled.
A subset is supported: names, `.`, escaped punctuation, `\\d`, `\\w`, lists and ranges such as `[0-9]`, the
repetitions `?`, `*` and `+` of one character, `|` between whole patterns, and `^` and `$` at the ends.
"""

import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from inference.hplm.adapter_io.adapter_folder import unsupported_adapter

MAX_PATTERN_LENGTH: Final = 200
"""Characters of one pattern."""
MAX_PATTERNS: Final = 512
"""Patterns of one object. PEFT writes at most one for each linear layer."""
REPETITIONS: Final = "?*+"
PLAIN_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_-")
ESCAPED: Final[Mapping[str, frozenset[str]]] = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    **{sign: frozenset(sign) for sign in ".-_"},
}
Characters = frozenset[str] | None
"""The characters that match; None: any."""


@dataclass(frozen=True, slots=True)
class _Step:
    characters: Characters
    optional: bool
    repeated: bool

    def accepts(self, character: str) -> bool:
        return self.characters is None or character in self.characters


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A parsed pattern. ``alternatives``: of each the steps, and whether it is anchored at the start."""

    alternatives: tuple[tuple[bool, tuple[_Step, ...]], ...]

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole name or its end after a dot, as in PEFT.

        The time is bounded by the product of both lengths.
        """
        return any(_matches_suffix(name, steps, anchored=anchored) for anchored, steps in self.alternatives)


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
    return NamePattern(tuple(_parse_alternative(alternative) for alternative in pattern.split("|")))


def _parse_alternative(text: str) -> tuple[bool, tuple[_Step, ...]]:
    anchored = text.startswith("^")
    text = text.removeprefix("^")
    if text.endswith("$") and not text.endswith(r"\$"):
        text = text[:-1]
    return anchored, tuple(_parse_steps(text))


def _parse_steps(text: str) -> Iterator[_Step]:
    at = 0
    while at < len(text):
        characters, at = _parse_characters(text, at)
        sign = text[at] if at < len(text) and text[at] in REPETITIONS else ""
        at += len(sign)
        if sign and at < len(text) and text[at] in REPETITIONS:
            raise ValueError(f"{text[at]!r} directly follows another repetition")
        yield _Step(characters, optional=sign in ("?", "*"), repeated=sign in ("*", "+"))


def _parse_characters(text: str, at: int) -> tuple[Characters, int]:
    """The characters that match at one position, and the index of the next."""
    sign = text[at]
    if sign in PLAIN_CHARACTERS:
        return frozenset(sign), at + 1
    if sign == ".":
        return None, at + 1
    if sign == "\\":
        escaped = text[at + 1 : at + 2]
        if escaped not in ESCAPED:
            raise ValueError(f"{text[at : at + 2]!r} is not a supported escape")
        return ESCAPED[escaped], at + 2
    if sign == "[":
        end = text.find("]", at)
        return _parse_list(text[at + 1 : end] if end > 0 else ""), end + 1
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


def _matches_suffix(name: str, steps: tuple[_Step, ...], *, anchored: bool) -> bool:
    """Simulates the pattern as an NFA: all possible positions in `steps` at once."""
    waiting = _skip_optional([0], steps)
    for character in name:
        further = set()
        for position in waiting:
            if position < len(steps) and steps[position].accepts(character):
                further.add(position + 1)
                if steps[position].repeated:
                    further.add(position)
        if character == "." and not anchored:
            further.add(0)
        waiting = _skip_optional(further, steps)
    return len(steps) in waiting


def _skip_optional(positions: Iterable[int], steps: tuple[_Step, ...]) -> set[int]:
    """The positions, and those after optional steps."""
    found: set[int] = set()
    for position in positions:
        found.add(position)
        while position < len(steps) and steps[position].optional:
            position += 1
            found.add(position)
    return found
