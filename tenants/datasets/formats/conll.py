"""CoNLL: one token a line with its tag, a blank line after each sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.failures import bad_file
from tenants.datasets.formats.lines import Line, Source, read_lines
from tenants.datasets.formats.rows import Names, RawRow

DOCUMENT_MARK = "-DOCSTART-"


def read_conll(source: Source, places: Names) -> Iterator[RawRow]:
    """The sentences as rows of ``tokens`` and ``tags``.

    The token is the first and the tag the last of a line's columns (parted by tabs, else by spaces), unless
    ``places`` says at which position, counted from 1, they stand. Raises ``missing_column`` for a line
    with too few columns. ``line`` of a row is that of its first token.
    """
    token_at, tag_at = _position(places, "tokens", 0), _position(places, "tags", -1)
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


def conll_columns(source: Source) -> dict[str, str]:
    """The columns of the first token's line by their positions from 1, each with what stands there."""
    first = next((line for line in read_lines(source) if _is_token(line)), None)
    return {str(place): part for place, part in enumerate(_parts(first), start=1)} if first else {}


def _row(row: int, line: int, sentence: list[tuple[str, str]]) -> RawRow:
    fields = {"tokens": [token for token, _ in sentence], "tags": [tag for _, tag in sentence]}
    return RawRow(row, line, fields, lines_per_item=1)


def _token(line: Line, token_at: int, tag_at: int, file: str) -> tuple[str, str]:
    columns = _parts(line)
    needed = max(2, token_at + 1, tag_at + 1)
    if len(columns) < needed:
        raise bad_file(
            ErrorCode.MISSING_COLUMN,
            f"a token and its tag need {needed} columns; this line has {len(columns)}.",
            file=file,
            line=line.number,
            needed=needed,
            found=len(columns),
        )
    return columns[token_at].strip(), columns[tag_at].strip()


def _is_token(line: Line) -> bool:
    return bool(line.text.strip()) and not line.text.startswith(DOCUMENT_MARK)


def _parts(line: Line) -> list[str]:
    return line.text.split("\t") if "\t" in line.text else line.text.split()


def _position(places: Names, column: str, otherwise: int) -> int:
    name = places.needed.get(column, column)
    if name == column:
        return otherwise
    if not (name.isascii() and name.isdigit() and 1 <= int(name) <= 100):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Columns of a CoNLL file have no names: say at which position, from 1, the {column} stand.",
            param="columns",
        )
    return int(name) - 1


LONGEST_KIND = 200


@dataclass(frozen=True, slots=True)
class TagFault:
    """The first tag that breaks the rules; ``index`` counts tokens from 0."""

    index: int
    why: str


def find_fault(tags: Sequence[str]) -> TagFault | None:
    """The first fault in a sentence's tags."""
    before = "O"
    for index, tag in enumerate(tags):
        if tag != "O" and not _is_known(tag):
            return TagFault(index, f"{tag!r} is no IOB2 tag; they are O, B-kind and I-kind")
        if tag.startswith("I-") and before[2:] != tag[2:]:
            return TagFault(index, f"{tag!r} goes on with a span that {before!r} before it did not begin")
        before = tag
    return None


def _is_known(tag: str) -> bool:
    kind = tag[2:]
    return tag[:2] in {"B-", "I-"} and bool(kind.strip()) and kind.isprintable() and len(kind) <= LONGEST_KIND
