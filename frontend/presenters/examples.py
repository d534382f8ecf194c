"""Rows of a dataset to try a model with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from frontend.forms.trying import FIELDS, PLACES
from tenants.datasets.models import Dataset
from versiontree.tree.selectors.callable_hplms import Reads


@dataclass(frozen=True, slots=True)
class Example:
    """A row: its texts in the order of the fields that they fill in, and what the dataset says to it."""

    texts: list[str]
    expected: str

    @property
    def shown(self) -> str:
        """The texts in one line."""
        return " / ".join(self.texts)


@dataclass(frozen=True, slots=True)
class TriedWith:
    """A few rows, and the dataset that they are from."""

    dataset: Dataset | None
    examples: list[Example]

    def filled(self, number: str) -> dict[str, str]:
        """What the fields hold once the example of this number was chosen; nothing where there is none."""
        chosen = {str(place): example for place, example in enumerate(self.examples)}.get(number)
        return dict(zip(PLACES, chosen.texts, strict=False)) if chosen else {}


def tried_with(dataset: Dataset | None, rows: Iterable[Mapping[str, Any]], reads: Reads) -> TriedWith:
    """Those rows that have all that is read."""
    names = list(FIELDS[reads])
    given = [(row, {"text": " ".join(row.get("tokens", []))} | dict(row)) for row in rows]
    return TriedWith(
        dataset,
        [
            Example([texts[name] for name in names], _expected(row))
            for row, texts in given
            if all(texts.get(name) for name in names)
        ],
    )


def _expected(row: Mapping[str, Any]) -> str:
    if "tags" in row:
        return ", ".join(dict.fromkeys(tag[2:] for tag in row["tags"] if tag.startswith("B-")))
    if "value" in row:
        return f"{row['value']:g}"
    if "answers" in row:
        return str(next((answer["text"] for answer in row["answers"]), "no answer"))
    return ", ".join(row.get("labels", [row.get("label", "")]))
