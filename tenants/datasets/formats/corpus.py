"""Reads the file of a corpus: one text a line. Checks, counts, writes the canonical file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.jsonl import read_jsonl
from tenants.datasets.formats.lines import Source, fingerprint, read_lines
from tenants.datasets.formats.readers import detect_corpus_format
from tenants.datasets.formats.row_parser import parse_text
from tenants.datasets.formats.rows import ColumnMapping
from tenants.datasets.formats.statistics import FlaggedRows, LengthStatistics

MAX_FINGERPRINTS = 1_000_000
"""Duplicates are found among this many distinct texts, which bounds the memory."""

PREVIEW_ROWS = 5
MAX_PREVIEW_LENGTH = 300


@dataclass(slots=True)
class CorpusDraft:
    """A corpus that was checked and written to a workspace, but is not stored yet."""

    path: Path
    format: str
    characters: LengthStatistics = field(default_factory=LengthStatistics)
    words: LengthStatistics = field(default_factory=LengthStatistics)
    fingerprints: set[int] = field(default_factory=set)
    duplicates: FlaggedRows = field(default_factory=FlaggedRows)
    preview: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of texts."""
        return self.words.count

    def add(self, text: str) -> None:
        """Count one text."""
        self.characters.add(len(text))
        self.words.add(len(text.split()))
        key = fingerprint(text)
        if key in self.fingerprints:
            self.duplicates.add(self.rows)
        elif len(self.fingerprints) < MAX_FINGERPRINTS:
            self.fingerprints.add(key)
        if len(self.preview) < PREVIEW_ROWS:
            self.preview.append(text[:MAX_PREVIEW_LENGTH])


def draft_corpus(*, file: Source, workspace: Path) -> CorpusDraft:
    """Read a text file, or JSON with ``text``, and write the canonical file. Blank lines are left out.

    White space inside a text, including unusual line ends, becomes single spaces.
    """
    kind = detect_corpus_format(file)
    draft = CorpusDraft(path=workspace / "corpus.txt", format=kind)
    with draft.path.open("x", encoding="utf-8", newline="\n") as canonical:
        for text in _texts(file) if kind == "text" else _texts_of_json(file, document=kind == "json"):
            cleaned = " ".join(text.split())
            if cleaned:
                draft.add(cleaned)
                canonical.write(cleaned + "\n")
    if not draft.rows:
        raise file_error(ErrorCode.EMPTY_FILE, "there is no text in the file.", file=file.name)
    return draft


def corpus_report(draft: CorpusDraft, *, min_words: int = 0) -> dict[str, Any]:
    """The validation report as JSON. ``min_words`` is what a domain needs."""
    warnings = []
    if draft.words.total < min_words:
        warnings.append(
            f"A domain needs at least {min_words:,} words of text; this corpus has {draft.words.total:,}."
        )
    if draft.duplicates.rows:
        first = ", ".join(map(str, draft.duplicates.first))
        warnings.append(
            f"{draft.duplicates.rows:,} texts ({draft.duplicates.rows / draft.rows:.1%}) repeat an earlier"
            f" one (the first: texts {first})."
        )
    if draft.rows < 10:
        warnings.append(f"Only {draft.rows} texts, each on a line of its own. Are line ends missing?")
    return {
        "format": draft.format,
        "rows": draft.rows,
        "words": draft.words.total,
        "duplicates": draft.duplicates.rows,
        "duplicate_rows": draft.duplicates.first,
        "characters": draft.characters.to_json(),
        "words_per_row": draft.words.to_json(),
        "words_histogram": draft.words.histogram(),
        "warnings": warnings,
    }


def _texts(file: Source) -> Iterator[str]:
    return (line.text for line in read_lines(file))


def _texts_of_json(file: Source, *, document: bool) -> Iterator[str]:
    rows = read_jsonl(file, ColumnMapping({"text": "text"}), document=document)
    return (parse_text(raw, file.name, "text") for raw in rows)
