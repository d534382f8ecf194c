"""Reads of uploads for those who look for one among thousands, or into one."""

import json
from itertools import islice
from typing import Any, Final, TypeVar

from django.db.models import F, QuerySet, Sum

from tenants.formats.report import LONGEST_SHOWN, MOST_TOKENS_SHOWN
from tenants.models import Corpus, Dataset
from tenants.storage import upload_store

Found = TypeVar("Found", Corpus, Dataset)

ORDERS: Final = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "name": "By name",
    "largest": "Largest first",
}
_FIELDS: Final = {
    "newest": ("-created_at", "-pk"),
    "oldest": ("created_at", "pk"),
    "name": ("name",),
}
ROWS_SHOWN: Final = 3
_LONGEST_LINE: Final = 1 << 20
"""Bytes of a line that are looked at; a longer one is left out."""


def uploads_found(uploads: QuerySet[Found], *, words: str = "", order: str = "newest") -> QuerySet[Found]:
    """Those datasets or corpora with these words in their name, in one of the ``ORDERS``."""
    for word in words.split():
        uploads = uploads.filter(name__icontains=word)
    if order == "largest":
        size = Sum("splits__size_bytes") if issubclass(uploads.model, Dataset) else F("size_bytes")
        return uploads.annotate(bytes=size).order_by("-bytes", "-pk")
    return uploads.order_by(*_FIELDS.get(order, _FIELDS["newest"]))


def dataset_rows_shown(dataset: Dataset) -> dict[str, list[dict[str, Any]]]:
    """The first stored rows of each split, as they were shown before the dataset was stored."""
    return {
        split.split: [_cut(json.loads(line)) for line in _first_lines(split.sha256)]
        for split in dataset.splits.all()
    }


def corpus_texts_shown(corpus: Corpus) -> list[str]:
    """The first stored texts; long ones are cut."""
    return [line[:LONGEST_SHOWN] for line in _first_lines(corpus.sha256)]


def _first_lines(sha256: str) -> list[str]:
    path = upload_store().path(sha256)
    if not path.is_file():
        return []
    with path.open("rb") as file:
        lines = islice(iter(lambda: file.readline(_LONGEST_LINE), b""), ROWS_SHOWN)
        return [line.decode().rstrip("\n") for line in lines if line.endswith(b"\n")]


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in row.items():
        longest = LONGEST_SHOWN if isinstance(value, str) else MOST_TOKENS_SHOWN
        shown[name] = value[:longest] if isinstance(value, str | list) else value
    return shown | {"cut": any(shown[name] != row[name] for name in row)}
