"""Reads of uploads for those who look for one among thousands, or into one."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models import F, QuerySet, Sum

from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from tenants.datasets.formats.columns import FileColumns, read_columns
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.report import MAX_PREVIEW_LENGTH, MAX_PREVIEW_TOKENS
from tenants.datasets.models import CheckKind, Corpus, Dataset, Split, Upload, UploadCheck
from tenants.datasets.storage import upload_store

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
CHECKS_LOOKED_AT: Final = 200
_MAX_LINE_LENGTH: Final = 1 << 20
"""Bytes of a line that are looked at; a longer one is left out."""


def search_by_name(uploads: QuerySet[Found], *, words: str = "", order: str = "newest") -> QuerySet[Found]:
    """Those datasets or corpora with these words in their name, in one of the ``ORDERS``."""
    for word in words.split():
        uploads = uploads.filter(name__icontains=word)
    if order == "largest":
        size = Sum("splits__size_bytes") if issubclass(uploads.model, Dataset) else F("size_bytes")
        return uploads.annotate(bytes=size).order_by("-bytes", "-pk")
    return uploads.order_by(*_FIELDS.get(order, _FIELDS["newest"]))


def dataset_sample(dataset: Dataset) -> dict[str, list[dict[str, Any]]]:
    """The first stored rows of each split, as they were shown before the dataset was stored."""
    return {
        split.split: [_cut(json.loads(line)) for line in _first_lines(split.sha256)]
        for split in dataset.splits.all()
    }


def dataset_first_rows(dataset: Dataset, wanted: Split) -> list[dict[str, Any]]:
    """The first stored rows of one split, whole."""
    kept = [split.sha256 for split in dataset.splits.all() if split.split == wanted]
    return [json.loads(line) for sha256 in kept for line in _first_lines(sha256)]


def corpus_sample(corpus: Corpus) -> list[str]:
    """The first stored texts; long ones are cut."""
    return [line[:MAX_PREVIEW_LENGTH] for line in _first_lines(corpus.sha256)]


def latest_checks(tenant: Tenant, uploads: Iterable[Upload]) -> dict[UUID, UUID]:
    """Upload -> the newest check it went through, of those that went through one lately; one query."""
    keys = {str(upload.pk) for upload in uploads}
    found: dict[UUID, UUID] = {}
    rows = UploadCheck.objects.for_tenant(tenant).order_by("-created_at").values_list("pk", "files")
    for pk, files in rows[:CHECKS_LOOKED_AT]:
        for key in keys & set(files.values()):
            found.setdefault(UUID(key), pk)
    return found


def check_columns(check: UploadCheck) -> FileColumns:
    """The columns of the files of a check, those of train first, as far as they are there and can be read;
    none of a corpus."""
    found, options = FileColumns(), check.options
    if check.kind == CheckKind.CORPUS:
        return found
    uploads = Upload.objects.for_tenant(check.tenant).in_bulk(list(check.files.values()))
    by_key = {str(key): upload for key, upload in uploads.items()}
    for split in Split.values:
        if upload := by_key.get(check.files.get(split, "")):
            source = Source(upload_store().upload_path(upload.pk), upload.filename)
            with suppress(HmiError, OSError):  # the check itself says what is wrong with the file
                found.add(read_columns(source, options["task"], options.get("columns")))
    return found


def _first_lines(sha256: str) -> list[str]:
    path = upload_store().path(sha256)
    if not path.is_file():
        return []
    with path.open("rb") as file:
        lines = islice(iter(lambda: file.readline(_MAX_LINE_LENGTH), b""), ROWS_SHOWN)
        return [line.decode().rstrip("\n") for line in lines if line.endswith(b"\n")]


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in row.items():
        longest = MAX_PREVIEW_LENGTH if isinstance(value, str) else MAX_PREVIEW_TOKENS
        shown[name] = value[:longest] if isinstance(value, str | list) else value
    return shown | {"cut": any(shown[name] != row[name] for name in row)}
