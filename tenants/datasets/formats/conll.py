"""CoNLL: one token a line with its tag, a blank line after each sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.lines import Line, Source, read_lines
from tenants.datasets.formats.rows import ColumnMapping, RawRow

DOCUMENT_MARK = "-DOCSTART-"


def read_conll(source: Source, columns: ColumnMapping) -> Iterator[RawRow]:
    """The sentences as rows of ``tokens`` and ``tags``.

    The token is in the first column and the tag in the last, unless ``columns`` gives their positions from 1.
    Columns are separated by tabs, or else by spaces. Raises ``missing_column`` for a line with too few
    columns. The ``line`` of a row is that of its first token.
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


def conll_columns(source: Source) -> dict[str, str]:
    """Position (from 1) -> content of the columns in the first line with a token."""
    first = next((line for line in read_lines(source) if _is_token(line)), None)
    return {str(place): part for place, part in enumerate(_parts(first), start=1)} if first else {}


def _row(row: int, line: int, sentence: list[tuple[str, str]]) -> RawRow:
    fields = {"tokens": [token for token, _ in sentence], "tags": [tag for _, tag in sentence]}
    return RawRow(row, line, fields, lines_per_item=1)


def _token(line: Line, token_at: int, tag_at: int, file: str) -> tuple[str, str]:
    columns = _parts(line)
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
    return columns[token_at].strip(), columns[tag_at].strip()


def _is_token(line: Line) -> bool:
    return bool(line.text.strip()) and not line.text.startswith(DOCUMENT_MARK)


def _parts(line: Line) -> list[str]:
    return line.text.split("\t") if "\t" in line.text else line.text.split()


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


MAX_KIND_LENGTH = 200


@dataclass(frozen=True, slots=True)
class TagError:
    """The first invalid tag of a sentence. ``index`` counts tokens from 0."""

    index: int
    reason: str


def find_tag_error(tags: Sequence[str]) -> TagError | None:
    """The first tag that is not valid IOB2."""
    before = "O"
    for index, tag in enumerate(tags):
        if tag != "O" and not _is_known(tag):
            return TagError(index, f"{tag!r} is not an IOB2 tag (O, B-kind or I-kind)")
        if tag.startswith("I-") and before[2:] != tag[2:]:
            return TagError(index, f"{tag!r} continues a span, but the tag before it is {before!r}")
        before = tag
    return None


def _is_known(tag: str) -> bool:
    kind = tag[2:]
    return (
        tag[:2] in {"B-", "I-"} and bool(kind.strip()) and kind.isprintable() and len(kind) <= MAX_KIND_LENGTH
    )
