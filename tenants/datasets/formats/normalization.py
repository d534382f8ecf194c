"""One value that can be written in several ways: the rules for all formats and tasks (docs/limits.md)."""

import ast
import json
import unicodedata
from functools import lru_cache
from typing import Any, Final, Literal

import regex

MAX_LABEL_LENGTH: Final = 200
MAX_PARTS: Final = 4
"""So many characters may be one in NFC."""
ASCII_WHITE_SPACE: Final = " \t\n\r\v\f"
"""Separates tokens. Other white space, such as U+00A0, is part of a token."""

_JOINERS: Final = "\u200c\u200d"
_VIRAMA: Final = 9
"""The combining class of signs after which a joiner may end a word, as in Malayalam."""
_FLAG: Final = regex.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")
"""The flag of a part of a country: its letters are invisible."""
_MARK: Final = r"[\p{M}\uff9e\uff9f]"
"""A combining mark, or what is one in NFKC."""
_LONG_RUN: Final = regex.compile(rf"{_MARK}{{30}}(?={_MARK})")
_VARIATION_SELECTOR: Final = regex.compile(r"\p{Variation_Selector}")
"""Chooses a shape of the character before it, such as that of an emoji; by itself it cannot be seen."""
_BLANK_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are printable by their category, but show nothing."""
_ITEM: Final = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?\d+"
_WRITTEN_LIST: Final = regex.compile(rf"\[\s*(?:({_ITEM})(?:\s*,\s*|\s+|(?=\s*\])))*+\s*\]", regex.DOTALL)
"""``['a', 'b']`` as Python writes a list, and ``['a' 'b']`` as NumPy does."""


def unicode_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """The text in this form, with a combining grapheme joiner behind each 30 combining marks in a row, as in
    Unicode's stream-safe format. Without it a row of a million would take hours, in which Python's lock is
    held: their order takes time with the square of their number."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, _LONG_RUN.sub("\\g<0>\u034f", text, concurrent=True))


def clean_label(text: str) -> str:
    """The label in NFC, without white space around it; white space inside becomes single spaces.

    Raises ``ValueError`` that says what is wrong: it is blank or too long, or a character is invisible.
    Joiners inside words and emoji are allowed, since words of some languages differ in them.
    """
    return _cached_label(text) if len(text) <= MAX_LABEL_LENGTH else _clean_label(text)


def _clean_label(text: str) -> str:
    if len(" ".join(text.split())) > MAX_PARTS * MAX_LABEL_LENGTH:
        raise _too_long_label()
    written = unicodedata.normalize("NFC", text).strip()
    label = " ".join(written.split())
    if not label:
        raise ValueError("it is blank")
    if len(label) > MAX_LABEL_LENGTH:
        raise _too_long_label()
    visible = _FLAG.sub("x", written)
    for at, character in enumerate(visible):
        if not _is_visible(visible, at):
            name = unicodedata.name(character, "")
            code = f"U+{ord(character):04X}" + (f" {name}" if name else "")
            raise ValueError(f"it has the character {code}, which cannot be seen; remove it")
    return label


def _too_long_label() -> ValueError:
    return ValueError(f"it has more than {MAX_LABEL_LENGTH} characters")


_cached_label: Final = lru_cache(maxsize=4096)(_clean_label)
"""For labels as they should be: the cache must not hold texts of megabytes."""


def label_likeness(label: str) -> str:
    """Equal for labels that a reader may take for one: letter case, the number format or shapes differ."""
    label = _VARIATION_SELECTOR.sub("", label)
    try:
        return repr(float(label))
    except ValueError:
        return label.casefold()


def column_key(name: str) -> str:
    """Equal for names of one column: white space around them, letter case and Unicode form do not matter."""
    return unicode_form("NFC", name).strip().casefold()


def parse_number(value: float | str) -> float:
    """The number, or that of a text with a decimal point. Raises ``ValueError`` and ``OverflowError``."""
    return float(value.replace("_", "?") if isinstance(value, str) else value)


def split_at_spaces(text: str) -> list[str]:
    """The parts of a line or cell between spaces, tabs and line ends. Other white space is part of them."""
    return [part for part in regex.split(r"[ \t\n\r\v\f]+", text) if part]


def parse_list(cell: str) -> list[Any] | None:
    """The list in a cell of a table, as JSON, Python or NumPy writes it. None if it is no such list."""
    written = cell.strip()
    if not (written.startswith("[") and written.endswith("]")):
        return None
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        match = _WRITTEN_LIST.fullmatch(written)
        try:
            return [ast.literal_eval(item) for item in match.captures(1)] if match else None
        except (ValueError, SyntaxError):
            return None
    return found if isinstance(found, list) else None


def _is_visible(text: str, at: int) -> bool:
    character = text[at]
    if character in _JOINERS:
        joined = at > 0 and _can_join(text[at - 1])
        ends_word = joined and unicodedata.combining(text[at - 1]) == _VIRAMA
        return joined and (ends_word or _can_join(text[at + 1 : at + 2]))
    if character in _BLANK_LETTERS:
        return False
    if _VARIATION_SELECTOR.fullmatch(character):
        return at > 0 and not text[at - 1].isspace()
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _can_join(character: str) -> bool:
    """Whether a joiner may stand beside it: letters, marks, digits and symbols such as emoji."""
    return bool(character) and unicodedata.category(character)[0] in "LMNS"
