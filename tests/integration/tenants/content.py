"""Uploads for the tests, and a look at what they left on disk."""

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.audit.models import AuditEvent
from tenants.base.scope import platform_scope, tenant_scope
from tenants.datasets.models import Corpus, Dataset, DatasetSplit
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.storage import stored_path
from tests.integration.world import World
from tests.unit.tenants.files import jsonl, texts

CORPORA = "/api/v1/tenants/acme/corpora"
DATASETS = "/api/v1/tenants/acme/datasets"
CORPUS = "".join(f"line number {number} of the corpus\n" for number in range(50))


def rows(count: int) -> str:
    """JSON lines of classification with two labels."""
    return jsonl(texts(count, labels=("bad", "good")))


def stream(content: str | bytes) -> io.BytesIO:
    """The content as an open file."""
    return io.BytesIO(content.encode() if isinstance(content, str) else content)


def upload(name: str, content: str | bytes) -> Any:
    """The content as a file of a form."""
    return SimpleUploadedFile(name, content.encode() if isinstance(content, str) else content)


def post(client: Any, address: str, **fields: Any) -> Any:
    """Send a form."""
    return client.post(address, fields, format="multipart")


def stored(root: Path) -> set[str]:
    """Every file under the upload root, workspaces too."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@platform_scope()
def nothing_is_left(root: Path) -> bool:
    """Neither rows nor files of any upload."""
    models = (Corpus, Dataset, DatasetSplit)
    return not stored(root) and not any(model.unscoped.exists() for model in models)


def corpus_file(corpus: Corpus) -> Path:
    """The canonical file: UTF-8, one text a line."""
    return stored_path(corpus.sha256)


def dataset_files(dataset: Dataset) -> dict[str, Path]:
    """Split -> its canonical file: UTF-8, one JSON object a line."""
    return {split.split: stored_path(split.sha256) for split in dataset.splits.all()}


def audit_of(tenant: Tenant) -> QuerySet[AuditEvent]:
    """What was done in the tenant, newest first."""
    return AuditEvent.objects.for_tenant(tenant).select_related("actor", "api_key")


def scope_of(tenant: Tenant | None) -> AbstractContextManager[None]:
    """The scope in which a tenant's rows are written: its own, or the platform's."""
    return tenant_scope(tenant) if tenant else platform_scope()


def put_corpus(world: World, content: str | bytes = CORPUS, **changes: Any) -> Corpus:
    """The developer uploads a corpus called news, but for the changes."""
    fields: dict[str, Any] = {"tenant": world.tenant, "name": "news", "actor": world.developer}
    fields |= changes
    with scope_of(fields["tenant"]):
        return corpus_upload(stream=stream(content), filename="news.txt", **fields)


def put_dataset(world: World, content: str | bytes | None = None, **changes: Any) -> Dataset:
    """The developer uploads a dataset called mood, but for the changes."""
    files = {"train": ("train.jsonl", stream(rows(40) if content is None else content))}
    fields: dict[str, Any] = {
        "tenant": world.tenant,
        "name": "mood",
        "task": "classification",
        "actor": world.developer,
    }
    fields |= {"files": files} | changes
    with scope_of(fields["tenant"]):
        return dataset_upload(**fields)
