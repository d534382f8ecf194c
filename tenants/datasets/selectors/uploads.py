"""Queries for corpora, datasets, uploads and checks, and the storage that they use."""

from itertools import count
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Case, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Now

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.base.errors import require_found
from tenants.datasets.models import Corpus, Dataset, DatasetSplit, File, Upload, UploadCheck
from tenants.datasets.models.upload import ACTIVE_STATES, CheckState


def corpora_of(tenant: Tenant) -> QuerySet[Corpus]:
    """The tenant's own corpora, newest first."""
    return Corpus.objects.for_tenant(tenant).select_related("created_by")


def platform_corpora() -> QuerySet[Corpus]:
    """The platform's corpora, newest first."""
    return Corpus.unscoped.filter(tenant=None).select_related("created_by")


def corpus_of(tenant: Tenant, corpus_id: int) -> Corpus:
    """The tenant's corpus, or ``not_found``."""
    return require_found(corpora_of(tenant).filter(pk=corpus_id).first(), "corpus", param="corpus")


def datasets_of(tenant: Tenant) -> QuerySet[Dataset]:
    """The tenant's datasets with their splits, newest first."""
    return Dataset.objects.for_tenant(tenant).select_related("created_by").prefetch_related("splits")


def dataset_of(tenant: Tenant, dataset_id: int) -> Dataset:
    """The tenant's dataset, or ``not_found``."""
    return require_found(datasets_of(tenant).filter(pk=dataset_id).first(), "dataset", param="dataset")


def datasets_for_task(
    tenant: Tenant, task: str, *, pairs: bool, first: int | None, limit: int
) -> list[Dataset]:
    """The tenant's datasets for a task, with two texts a row or one: the one with the id ``first``, then the
    newest."""
    alike = Dataset.objects.for_tenant(tenant).filter(task=task, pairs=pairs)
    own = Case(When(pk=first or 0, then=0), default=1)
    return list(alike.order_by(own, "-created_at", "-pk")[:limit])


def corrected_name(dataset: Dataset) -> str:
    """The next free name for a corrected copy: ``tickets-2`` of ``tickets``, then ``tickets-3``."""
    base, _, number = dataset.name.rpartition("-")
    if not base or not number.isdecimal() or len(number) > 6:
        base, number = dataset.name, "1"
    base = base[:90].rstrip()
    taken = set(datasets_of(dataset.tenant).filter(name__startswith=base).values_list("name", flat=True))
    return next(name for n in count(int(number) + 1) if (name := f"{base}-{n}") not in taken)


def upload_by_id(kind: str, upload_id: int) -> Corpus | Dataset | None:
    """The ``corpus`` or ``dataset`` with this id, of any tenant. For system code."""
    if kind == "corpus":
        return Corpus.unscoped.select_related("tenant").filter(pk=upload_id).first()
    return Dataset.unscoped.select_related("tenant").filter(pk=upload_id).first()


def storage_used(tenant: Tenant) -> int:
    """The bytes of a tenant's data: corpora, datasets, files, uploads and saved check results. One query.

    An incomplete upload counts with its full size, and a file that several rows share counts for each.
    """
    counted: tuple[tuple[QuerySet[Any], str], ...] = (
        (Corpus.objects.for_tenant(tenant), "size_bytes"),
        (DatasetSplit.objects.for_tenant(tenant), "size_bytes"),
        (File.objects.for_tenant(tenant), "size_bytes"),
        (uploads_unexpired(tenant), "size_bytes"),
        (UploadCheck.objects.for_tenant(tenant).filter(saved_files__isnull=False), "saved_bytes"),
    )
    grouped = ((rows.order_by().values(one=Value(1)), field) for rows, field in counted)
    sums = [Subquery(rows.annotate(sum=Sum(field)).values("sum")) for rows, field in grouped]
    totals = Tenant.objects.filter(pk=tenant.pk).values_list(*sums).first()
    return sum(int(total or 0) for total in totals or ())


def uploads_unexpired(tenant: Tenant) -> QuerySet[Upload]:
    """The tenant's uploads that have not expired, newest first."""
    return Upload.objects.for_tenant(tenant).filter(expires_at__gt=Now())


def uploads_of(tenant: Tenant, owner: User | ApiKey) -> QuerySet[Upload]:
    """The tenant's uploads that this person or key created, newest first."""
    field = "api_key" if isinstance(owner, ApiKey) else "created_by"
    return uploads_unexpired(tenant).filter(**{field: owner})


def upload_of(tenant: Tenant, owner: User | ApiKey, upload_id: UUID) -> Upload:
    """The upload that this person or key created, or ``not_found``."""
    upload = uploads_of(tenant, owner).filter(pk=upload_id).first()
    return require_found(upload, "upload; it may have expired. Start a new one", param="upload")


def uploads_in_use() -> list[UUID]:
    """The uploads of all tenants with active checks."""
    files = UploadCheck.unscoped.filter(state__in=ACTIVE_STATES).values_list("files", flat=True)
    return [UUID(key) for mapping in files for key in mapping.values()]


def checks_open(tenant: Tenant) -> QuerySet[UploadCheck]:
    """The checks by workers that have not stored their files, refused ones included, newest first."""
    rows = UploadCheck.objects.for_tenant(tenant).filter(
        store=True, size_bytes__gt=settings.HMI_CHECK_INLINE_BYTES
    )
    return rows.exclude(state=CheckState.STORED)[:20]


def check_of(tenant: Tenant, check_id: UUID) -> UploadCheck:
    """The tenant's check, or ``not_found``."""
    row = UploadCheck.objects.for_tenant(tenant).filter(pk=check_id).first()
    return require_found(row, "check; it may have expired", param="check")
