"""The canonical form of a dataset's row: JSON lines of ``{"text", "label"}`` or ``{"tokens", "tags"}``."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINE_ENDS_INSIDE = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""JSON leaves these as they are, but some readers take them for ends of lines."""


def json_line(fields: dict[str, Any]) -> str:
    """One line of canonical JSON, with its line end and no other."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).translate(LINE_ENDS_INSIDE) + "\n"


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text and its label."""

    text: str
    label: str

    @property
    def plain(self) -> str:
        """What the model reads."""
        return self.text

    @property
    def words(self) -> int:
        """How many words the text has, parted by white space."""
        return len(self.text.split())

    @property
    def labels(self) -> tuple[str, ...]:
        """What the example teaches."""
        return (self.label,)

    def to_line(self) -> str:
        """The canonical line."""
        return json_line({"text": self.text, "label": self.label})


@dataclass(frozen=True, slots=True)
class TagExample:
    """Tokens and their IOB2 tags, as many of one as of the other."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def plain(self) -> str:
        """What the model reads."""
        return " ".join(self.tokens)

    @property
    def words(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    @property
    def labels(self) -> tuple[str, ...]:
        """The kind of each span, in order."""
        return tuple(tag[2:] for tag in self.tags if tag.startswith("B-"))

    def to_line(self) -> str:
        """The canonical line."""
        return json_line({"tokens": list(self.tokens), "tags": list(self.tags)})


Example = TextExample | TagExample


def example_from_line(line: str) -> Example:
    """Read back what ``to_line`` wrote."""
    fields = json.loads(line)
    if "text" in fields:
        return TextExample(text=fields["text"], label=fields["label"])
    return TagExample(tokens=tuple(fields["tokens"]), tags=tuple(fields["tags"]))


def read_examples(path: Path) -> Iterator[Example]:
    """The examples of a canonical file, in order."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield example_from_line(line)
