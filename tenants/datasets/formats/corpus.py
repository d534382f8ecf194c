"""A corpus from a text file: one text a line, checked, counted, written in canonical form."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.census import Lengths, Named
from tenants.datasets.formats.check import checked_text
from tenants.datasets.formats.failures import bad_file
from tenants.datasets.formats.jsonl import read_jsonl
from tenants.datasets.formats.lines import Source, fingerprint, read_lines
from tenants.datasets.formats.rows import Names

MOST_PRINTS = 1_000_000
"""Duplicates are looked for among this many differing texts, so that memory stays bounded."""

PREVIEW_ROWS = 5
LONGEST_SHOWN = 300


@dataclass(slots=True)
class CorpusDraft:
    """A corpus that was checked and written to a workspace, but not yet stored."""

    path: Path
    format: str
    characters: Lengths = field(default_factory=Lengths)
    words: Lengths = field(default_factory=Lengths)
    prints: set[int] = field(default_factory=set)
    duplicates: Named = field(default_factory=Named)
    preview: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return self.words.count

    def add(self, text: str) -> None:
        """Count one text."""
        self.characters.add(len(text))
        self.words.add(len(text.split()))
        mark = fingerprint(text)
        if mark in self.prints:
            self.duplicates.add(self.rows)
        elif len(self.prints) < MOST_PRINTS:
            self.prints.add(mark)
        if len(self.preview) < PREVIEW_ROWS:
            self.preview.append(text[:LONGEST_SHOWN])


def draft_corpus(*, file: Source, workspace: Path) -> CorpusDraft:
    """Read a text file (or JSON lines with ``text``) and write the canonical one; blank lines are left out.

    White space inside a text, odd line ends among it, becomes single spaces.
    """
    is_jsonl = Path(file.name).suffix.lower() in {".jsonl", ".ndjson"}
    draft = CorpusDraft(path=workspace / "corpus.txt", format="jsonl" if is_jsonl else "text")
    with draft.path.open("x", encoding="utf-8", newline="\n") as canonical:
        for text in _texts_of_jsonl(file) if is_jsonl else _texts(file):
            cleaned = " ".join(text.split())
            if cleaned:
                draft.add(cleaned)
                canonical.write(cleaned + "\n")
    if not draft.rows:
        raise bad_file(ErrorCode.EMPTY_FILE, "there is no text in the file.", file=file.name)
    return draft


def corpus_report(draft: CorpusDraft, *, least_words: int = 0) -> dict[str, Any]:
    """The validation report as JSON values; ``least_words`` is what a domain asks of its corpus."""
    warnings = []
    if draft.words.total < least_words:
        warnings.append(
            f"A domain needs at least {least_words:,} words of text; this corpus has {draft.words.total:,}."
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


def _texts_of_jsonl(file: Source) -> Iterator[str]:
    return (checked_text(raw, file.name, "text") for raw in read_jsonl(file, Names({"text": "text"})))
