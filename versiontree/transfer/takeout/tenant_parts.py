"""The files of a takeout with the tenant's own data, as streams."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from tenants.accounts.models import ApiKey, Membership, Tenant
from tenants.audit.models import AuditEvent
from tenants.base.csv_files import csv_chunks
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import TakeoutPart
from tenants.base.hooks import TakeoutPart as Part
from tenants.datasets.models import Corpus, Dataset, File
from tenants.datasets.storage import CHUNK_BYTES, corrupt_file_error, stored_path
from tenants.usage.models import AnswerDay, LoggedRequest, UsageDay
from tenants.usage.selectors import quota_of
from tenants.usage.services.answer_counts import COUNTED
from tenants.webhooks.models import WebhookEndpoint


def tenant_parts(tenant: Tenant) -> Iterator[Part]:
    """Settings, members, keys, uploads, usage, request log and audit events of the tenant."""
    yield json_part("tenant.json", _settings(tenant))
    yield table_part("members.csv", Membership.objects.for_tenant(tenant), _MEMBERS)
    yield table_part("api_keys.csv", ApiKey.objects.for_tenant(tenant), _KEYS)
    yield table_part("webhooks.csv", WebhookEndpoint.objects.for_tenant(tenant), _WEBHOOKS)
    yield from _corpora(tenant)
    yield from _datasets(tenant)
    yield from _files(tenant)
    yield table_part("usage.csv", UsageDay.objects.for_tenant(tenant).order_by("pk"), _USAGE)
    yield table_part("answers.csv", AnswerDay.objects.for_tenant(tenant).order_by("pk"), _ANSWERS)
    yield table_part("requests.csv", LoggedRequest.objects.for_tenant(tenant).order_by("pk"), _REQUESTS)
    yield table_part("audit.csv", AuditEvent.objects.for_tenant(tenant).order_by("pk"), _AUDIT)


def json_part(name: str, content: Any) -> Part:
    """A value as a JSON file."""
    text = json.dumps(content, indent=1, ensure_ascii=False, cls=DjangoJSONEncoder)
    return Part(name, [f"{text}\n".encode()])


def file_chunks(path: Path, what: str) -> Iterator[bytes]:
    """The chunks of a file named by its sha256.

    Raises ``corrupt_artifact`` if it is missing, and at its end if its checksum differs.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                yield chunk
    except FileNotFoundError as error:
        message = f"The file of {what} is missing on this server. Contact your administrator."
        raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message) from error
    if digest.hexdigest() != path.name:
        raise corrupt_file_error(f"The file of {what}")


_MEMBERS: Final = ("user__username", "user__email", "role", "created_at")


_KEYS: Final = (
    "prefix",
    "name",
    "scopes",
    "created_by__username",
    "created",
    "expiry_date",
    "last_used_at",
    "revoked",
)


_WEBHOOKS: Final = ("id", "url", "kinds", "description", "created_by__username", "created_at", "disabled_at")


_USAGE: Final = (
    "day",
    "model_name",
    "key_prefix",
    "requests",
    "inputs",
    "tokens",
    "generated_tokens",
    "failed",
    "refused",
    "busy_ms",
)


_ANSWERS: Final = ("day", "model_name", "version", *COUNTED, "drift")


_REQUESTS: Final = (
    *("at", "request_id", "api", "model_name", "version", "key_prefix", "status", "error_code", "latency_ms"),
    *("level", "inputs", "tokens", "generated_tokens", "param", "message", "reference", "details", "texts"),
)


_AUDIT: Final = (
    "at",
    "verb",
    "subject",
    "actor__username",
    "api_key__prefix",
    "address",
    "request_id",
    "detail",
)


def _settings(tenant: Tenant) -> dict[str, Any]:
    quota = quota_of(tenant)
    limits = {field.name: getattr(quota, field.name) for field in quota._meta.fields}
    return {
        "slug": tenant.slug,
        "name": tenant.name,
        "created_at": tenant.created_at,
        "checks_answers": tenant.checks_answers,
        "keeps_request_texts": tenant.keeps_request_texts,
        "auto_rebase": tenant.auto_rebase,
        "weight": tenant.weight,
        "quota": {name: limit for name, limit in limits.items() if name not in ("id", "tenant")},
    }


def _corpora(tenant: Tenant) -> Iterator[Part]:
    for corpus in Corpus.objects.for_tenant(tenant).select_related("created_by").order_by("pk"):
        folder = f"corpora/{corpus.pk}"
        about = {name: getattr(corpus, name) for name in ("name", "sha256", "rows", "words", "report")}
        yield json_part(f"{folder}/corpus.json", about | _made(corpus))
        yield Part(f"{folder}/corpus.txt", file_chunks(stored_path(corpus.sha256), f"the corpus {corpus}"))


def _datasets(tenant: Tenant) -> Iterator[Part]:
    datasets = Dataset.objects.for_tenant(tenant).select_related("created_by").prefetch_related("splits")
    for dataset in datasets.order_by("pk"):
        folder = f"datasets/{dataset.pk}"
        fields = ("name", "task", "labels", "pairs", "leaks_allowed", "report")
        splits = {split.split: {"rows": split.rows, "sha256": split.sha256} for split in dataset.splits.all()}
        about = {name: getattr(dataset, name) for name in fields} | {"splits": splits} | _made(dataset)
        yield json_part(f"{folder}/dataset.json", about)
        for split in dataset.splits.all():
            what = f"the dataset {dataset.name}"
            yield Part(f"{folder}/{split.split}.jsonl", file_chunks(stored_path(split.sha256), what))


def _files(tenant: Tenant) -> Iterator[Part]:
    files = File.objects.for_tenant(tenant).order_by("pk")
    yield table_part("files.csv", files, ("id", "purpose", "filename", "size_bytes", "sha256", "created_at"))
    for file in files.iterator(ROWS_PER_CHUNK):
        yield Part(f"files/{file.pk}", file_chunks(stored_path(file.sha256), f"the file {file}"))


def _made(row: Corpus | Dataset) -> dict[str, Any]:
    return {"created_at": row.created_at, "created_by": row.created_by and row.created_by.get_username()}


ROWS_PER_CHUNK: Final = 2_000


def table_part(name: str, rows: QuerySet[Any, Any], columns: Sequence[str]) -> TakeoutPart:
    """These columns of the rows as a CSV file."""
    values = rows.values_list(*columns).iterator(ROWS_PER_CHUNK)
    header = [column.replace("__", "_") for column in columns]
    return TakeoutPart(name, csv_chunks(header, ([_csv_value(value) for value in row] for row in values)))


def _csv_value(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
