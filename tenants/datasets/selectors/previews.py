"""Search and previews of corpora, datasets and checked uploads."""

import json
from collections.abc import Iterable, Mapping
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
from tenants.datasets.formats.task_guess import guess_task
from tenants.datasets.models import CheckKind, Corpus, Dataset, Split, Task, Upload, UploadCheck
from tenants.datasets.storage import upload_store

Row = TypeVar("Row", Corpus, Dataset)

ORDERS: Final = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "name": "By name",
    "largest": "Largest first",
}
_ORDER_FIELDS: Final = {
    "newest": ("-created_at", "-pk"),
    "oldest": ("created_at", "pk"),
    "name": ("name",),
}
PREVIEW_ROWS: Final = 3
MAX_CHECKS_SEARCHED: Final = 200
MAX_LINE_BYTES: Final = 1 << 20
"""Longer lines are left out."""


def search_by_name(rows: QuerySet[Row], *, words: str = "", order: str = "newest") -> QuerySet[Row]:
    """The datasets or corpora with all these words in their names, in one of the ``ORDERS``."""
    for word in words.split():
        rows = rows.filter(name__icontains=word)
    if order == "largest":
        size = Sum("splits__size_bytes") if issubclass(rows.model, Dataset) else F("size_bytes")
        return rows.annotate(bytes=size).order_by("-bytes", "-pk")
    return rows.order_by(*_ORDER_FIELDS.get(order, _ORDER_FIELDS["newest"]))


def dataset_sample(dataset: Dataset) -> dict[str, list[dict[str, Any]]]:
    """The first stored rows of each split, truncated as in a validation report."""
    return {
        split.split: [truncated_row(json.loads(line)) for line in _first_lines(split.sha256)]
        for split in dataset.splits.all()
    }


def dataset_first_rows(dataset: Dataset, split: Split) -> list[dict[str, Any]]:
    """The first stored rows of one split, not truncated."""
    digests = [row.sha256 for row in dataset.splits.all() if row.split == split]
    return [json.loads(line) for sha256 in digests for line in _first_lines(sha256)]


def corpus_sample(corpus: Corpus) -> list[str]:
    """The first stored texts, truncated."""
    return [line[:MAX_PREVIEW_LENGTH] for line in _first_lines(corpus.sha256)]


def latest_checks(tenant: Tenant, uploads: Iterable[Upload]) -> dict[UUID, UUID]:
    """Upload -> its newest check, among the tenant's latest ``MAX_CHECKS_SEARCHED`` checks. One query."""
    keys = {str(upload.pk) for upload in uploads}
    latest: dict[UUID, UUID] = {}
    rows = UploadCheck.objects.for_tenant(tenant).order_by("-created_at").values_list("pk", "files")
    for pk, files in rows[:MAX_CHECKS_SEARCHED]:
        for key in keys & set(files.values()):
            latest.setdefault(UUID(key), pk)
    return latest


def check_columns(check: UploadCheck) -> FileColumns:
    """The columns of the files of a dataset check. Those of a corpus have none."""
    if check.kind == CheckKind.CORPUS:
        return FileColumns()
    uploads = Upload.objects.for_tenant(check.tenant).in_bulk(list(check.files.values()))
    by_key = {str(key): upload for key, upload in uploads.items()}
    files = {split: by_key[key] for split, key in check.files.items() if key in by_key}
    return files_columns(files, check.options["task"], check.options.get("columns"))


def files_columns(
    files: Mapping[str, Upload], task: str, columns: Mapping[str, str] | None = None
) -> FileColumns:
    """The columns of the files of a dataset by split, those of train first. Unreadable files are left out."""
    found = FileColumns()
    for split in Split.values:
        if upload := files.get(split):
            source = Source(upload_store().upload_path(upload.pk), upload.filename)
            with suppress(HmiError, OSError):  # the check reports the error
                found.add(read_columns(source, task, columns))
    return found


def files_task(files: Mapping[str, Upload]) -> str:
    """The task that the files of a dataset by split seem to be for. Classification if they fit none."""
    for split in Split.values:
        if upload := files.get(split):
            with suppress(HmiError, OSError):  # the check reports the error
                if task := guess_task(Source(upload_store().upload_path(upload.pk), upload.filename)):
                    return task
    return Task.CLASSIFICATION


def _first_lines(sha256: str) -> list[str]:
    path = upload_store().path(sha256)
    if not path.is_file():
        return []
    with path.open("rb") as file:
        lines = islice(iter(lambda: file.readline(MAX_LINE_BYTES), b""), PREVIEW_ROWS)
        return [line.decode().rstrip("\n") for line in lines if line.endswith(b"\n")]


def truncated_row(row: dict[str, Any]) -> dict[str, Any]:
    """A stored row with its long texts cut, as in a validation report; ``cut`` says whether any was."""
    truncated: dict[str, Any] = {}
    for name, value in row.items():
        limit = MAX_PREVIEW_LENGTH if isinstance(value, str) else MAX_PREVIEW_TOKENS
        truncated[name] = value[:limit] if isinstance(value, str | list) else value
    return truncated | {"cut": any(truncated[name] != row[name] for name in row)}
