"""Detects the format of a file by its first lines, and reads its rows."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import regex

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.conll import is_conll, read_conll
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.jsonl import MAX_DOCUMENT_BYTES, is_json, read_jsonl
from tenants.datasets.formats.lines import MAX_LINE_BYTES, Source, read_lines
from tenants.datasets.formats.rows import ColumnMapping, OnRowError, RawRow, raise_row_error
from tenants.datasets.formats.table import read_table, table_delimiter

JSON_SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".json"})
HEAD_LINES: Final = 20
HEAD_CHARACTERS: Final = 1 << 20
FASTTEXT_MARK: Final = "__label__"
_MARKDOWN_RULE: Final = regex.compile(r"\s*\|?(?:\s*:?-{3,}:?\s*\|)+(?:\s*:?-{3,}:?)?\s*")
_JSON_BEGINS: Final = regex.compile(r"\{\s*(?:\"|$)|\[\s*(?:[\[{]|$)")


def read_rows(
    source: Source, task: str, columns: ColumnMapping, on_error: OnRowError = raise_row_error
) -> tuple[str, Iterator[RawRow]]:
    """The format of the file and its rows."""
    kind = detect_format(source, task, columns)
    if kind == "conll":
        return kind, read_conll(source, columns)
    if kind in {"json", "jsonl"}:
        return kind, read_jsonl(source, columns, on_error, document=kind == "json")
    return kind, read_table(source, columns, on_error)


def detect_format(source: Source, task: str, columns: ColumnMapping) -> str:
    """``json``, ``jsonl``, ``csv``, ``tsv`` or ``conll``: by the first lines, or else by the extension."""
    suffix = Path(source.name).suffix.lower()
    lines = head_lines(source)
    first = lines[0].strip() if lines else ""
    if first.startswith(FASTTEXT_MARK):
        raise file_error(
            ErrorCode.MALFORMED_ROW,
            "this is fastText's format. Export JSON lines, or a CSV file with the columns text and label.",
            file=source.name,
            line=1,
        )
    if len(lines) > 1 and _MARKDOWN_RULE.fullmatch(lines[1]):
        raise file_error(
            ErrorCode.MALFORMED_ROW,
            "this is a table in Markdown. Write it as a CSV file.",
            file=source.name,
            line=2,
        )
    if task == "tagging" and is_conll(lines):
        return "conll"
    if (delimiter := table_delimiter(lines, columns)) is not None:
        return "tsv" if delimiter == "\t" else "csv"
    if _JSON_BEGINS.match(first) or (first.startswith('["') and is_json(first)):
        return "json" if _is_document(lines) else "jsonl"
    if suffix in JSON_SUFFIXES:
        return "jsonl"
    if suffix in {".csv", ".tsv"}:
        return suffix[1:]
    return "conll" if task == "tagging" else "csv"


def detect_corpus_format(source: Source) -> str:
    """``text``, or ``json`` or ``jsonl`` of objects with a ``text``."""
    lines = head_lines(source)
    first = lines[0].strip() if lines else ""
    is_object = first.startswith("{") and is_json(first) and "text" in json.loads(first)
    if is_object or Path(source.name).suffix.lower() in JSON_SUFFIXES:
        return "json" if lines and _is_document(lines) else "jsonl"
    return "text"


def head_lines(source: Source) -> list[str]:
    """The first lines that are not blank; the first may be a whole JSON document."""
    lines: list[str] = []
    for line in read_lines(source, max_bytes=MAX_DOCUMENT_BYTES):
        if line.text.strip():
            lines.append(line.text)
        if len(lines) == HEAD_LINES or sum(map(len, lines)) > HEAD_CHARACTERS:
            break
    return lines


def _is_document(lines: Sequence[str]) -> bool:
    """Whether the file is one JSON value, rather than one a line."""
    first = lines[0].strip()
    if first == "{" or len(first) > MAX_LINE_BYTES:
        return True
    if is_json(first):
        return len(lines) == 1
    return first.startswith("[") or (len(lines) > 1 and lines[1].lstrip().startswith('"'))
