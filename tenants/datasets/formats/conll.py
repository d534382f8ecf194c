"""CoNLL: one token a line with its tag, a blank line after each sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.lines import Line, Source, read_lines
from tenants.datasets.formats.normalization import clean_label
from tenants.datasets.formats.rows import ColumnMapping, RawRow

DOCUMENT_MARK = "-DOCSTART-"
MAX_TAG_SHOWN: Final = 60
_TAG: Final = regex.compile(r"O|[BIESLU]-.+")


def read_conll(source: Source, columns: ColumnMapping) -> Iterator[RawRow]:
    """The sentences as rows of ``tokens`` and ``tags``.

    The token is in the first column and the tag in the last, unless ``columns`` gives their positions from 1.
    Columns are separated by tabs, or else by spaces, and by no other white space. Raises ``missing_column``
    for a line with too few columns. The ``line`` of a row is that of its first token.
    """
    token_at, tag_at = _position(columns, "tokens", 0), _position(columns, "tags", -1)
    sentence: list[tuple[str, str]] = []
    row = begins = 0
    for line in read_lines(source):
        if _is_token(line):
            if not sentence:
                begins = line.number
            sentence.append(_token(line, token_at, tag_at, source.name))
        elif sentence:
            row += 1
            yield _row(row, begins, sentence)
            sentence = []
    if sentence:
        yield _row(row + 1, begins, sentence)


def is_conll(lines: Sequence[str]) -> bool:
    """Whether the first of these lines, none of them blank, and most others have a token and then a tag."""
    tagged = [
        any(map(_TAG.fullmatch, _parts(line)[1:])) for line in lines if not line.startswith(DOCUMENT_MARK)
    ]
    return bool(tagged) and tagged[0] and 2 * sum(tagged) > len(tagged)


def conll_columns(source: Source) -> dict[str, str]:
    """Position (from 1) -> content of the columns in the first line with a token."""
    first = next((line for line in read_lines(source) if _is_token(line)), None)
    return {str(place): part for place, part in enumerate(_parts(first.text), start=1)} if first else {}


def _row(row: int, line: int, sentence: list[tuple[str, str]]) -> RawRow:
    fields = {"tokens": [token for token, _ in sentence], "tags": [tag for _, tag in sentence]}
    return RawRow(row, line, fields, lines_per_item=1)


def _token(line: Line, token_at: int, tag_at: int, file: str) -> tuple[str, str]:
    columns = _parts(line.text)
    needed = max(2, token_at + 1, tag_at + 1)
    if len(columns) < needed:
        raise file_error(
            ErrorCode.MISSING_COLUMN,
            f"a token and its tag need {needed} columns; this line has {len(columns)}.",
            file=file,
            line=line.number,
            needed=needed,
            found=len(columns),
        )
    return columns[token_at].strip(" "), columns[tag_at].strip(" ")


def _is_token(line: Line) -> bool:
    return bool(line.text.strip(" \t")) and not line.text.startswith(DOCUMENT_MARK)


def _parts(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]


def _position(columns: ColumnMapping, column: str, otherwise: int) -> int:
    name = columns.required.get(column, column)
    if name == column:
        return otherwise
    if not (name.isascii() and name.isdigit() and 1 <= int(name) <= 100):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Columns of a CoNLL file have no names. Give the position of the {column}, counted from 1.",
            param="columns",
        )
    return int(name) - 1


@dataclass(frozen=True, slots=True)
class TagError:
    """The first invalid tag of a sentence. ``index`` counts tokens from 0."""

    index: int
    reason: str


def clean_tags(tags: Sequence[str]) -> list[str] | TagError:
    """The tags with clean labels, or the first that is not valid IOB2."""
    cleaned: list[str] = []
    before = "O"
    for index, tag in enumerate(tags):
        place, kind = tag[:2], tag[2:]
        if place in {"B-", "I-"} and kind:
            try:
                tag = place + clean_label(kind)
            except ValueError as error:
                return TagError(index, f"{tag[:MAX_TAG_SHOWN]!r} has no valid label: {error}")
        elif tag != "O":
            return TagError(index, f"{tag[:MAX_TAG_SHOWN]!r} is not an IOB2 tag (O, B-kind or I-kind)")
        if place == "I-" and before[2:] != tag[2:]:
            return TagError(
                index,
                f"{tag!r} continues a span, but the tag before it is {before!r}; IOB2 begins each span with"
                f" {'B' + tag[1:]!r}",
            )
        cleaned.append(tag)
        before = tag
    return cleaned
