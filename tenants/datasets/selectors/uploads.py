"""Reads. Each names the tenant whose rows it returns, or says that they are the platform's."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Subquery, Sum, Value
from django.db.models.functions import Now

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.base.errors import ErrorCode, HmiError
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
    corpus = corpora_of(tenant).filter(pk=corpus_id).first()
    if corpus is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such corpus.", param="corpus")
    return corpus


def datasets_of(tenant: Tenant) -> QuerySet[Dataset]:
    """The tenant's datasets with their splits, newest first."""
    return Dataset.objects.for_tenant(tenant).select_related("created_by").prefetch_related("splits")


def dataset_of(tenant: Tenant, dataset_id: int) -> Dataset:
    """The tenant's dataset, or ``not_found``."""
    dataset = datasets_of(tenant).filter(pk=dataset_id).first()
    if dataset is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such dataset.", param="dataset")
    return dataset


def upload_by_id(kind: str, upload_id: int) -> Corpus | Dataset | None:
    """For system code: any tenant's ``corpus`` or ``dataset``."""
    if kind == "corpus":
        return Corpus.unscoped.select_related("tenant").filter(pk=upload_id).first()
    return Dataset.unscoped.select_related("tenant").filter(pk=upload_id).first()


def storage_used(tenant: Tenant) -> int:
    """Bytes of the tenant's uploads and files, each row with its full size, also those still to come in, and
    what was made of uploads for when they are stored; one query."""
    counted: tuple[tuple[QuerySet[Any], str], ...] = (
        (Corpus.objects.for_tenant(tenant), "size_bytes"),
        (DatasetSplit.objects.for_tenant(tenant), "size_bytes"),
        (File.objects.for_tenant(tenant), "size_bytes"),
        (uploads_unexpired(tenant), "size_bytes"),
        (UploadCheck.objects.for_tenant(tenant).filter(saved_files__isnull=False), "saved_bytes"),
    )
    alike = ((rows.order_by().values(one=Value(1)), field) for rows, field in counted)
    sums = [Subquery(rows.annotate(sum=Sum(field)).values("sum")) for rows, field in alike]
    found = Tenant.objects.filter(pk=tenant.pk).values_list(*sums).first()
    return sum(int(bytes_of or 0) for bytes_of in found or ())


def uploads_unexpired(tenant: Tenant) -> QuerySet[Upload]:
    """The tenant's files that come in or wait to be used, newest first."""
    return Upload.objects.for_tenant(tenant).filter(expires_at__gt=Now())


def uploads_of(tenant: Tenant, owner: User | ApiKey) -> QuerySet[Upload]:
    """Those that this person or key began."""
    field = "api_key" if isinstance(owner, ApiKey) else "created_by"
    return uploads_unexpired(tenant).filter(**{field: owner})


def upload_of(tenant: Tenant, owner: User | ApiKey, upload_id: UUID) -> Upload:
    """One of these, or ``not_found``: to others of the tenant, too."""
    upload = uploads_of(tenant, owner).filter(pk=upload_id).first()
    if upload is None:
        raise HmiError(
            ErrorCode.NOT_FOUND, "There is no such upload; it may have expired. Begin anew.", param="upload"
        )
    return upload


def uploads_in_use() -> list[UUID]:
    """The uploads of all tenants that a check is about to read."""
    files = UploadCheck.unscoped.filter(state__in=ACTIVE_STATES).values_list("files", flat=True)
    return [UUID(key) for named in files for key in named.values()]


def checks_open(tenant: Tenant) -> QuerySet[UploadCheck]:
    """What a worker is to store for the tenant, and what it refused to, newest first."""
    rows = UploadCheck.objects.for_tenant(tenant).filter(store=True, dispatched_at__isnull=False)
    return rows.exclude(state=CheckState.STORED)[:20]


def check_of(tenant: Tenant, check_id: UUID) -> UploadCheck:
    """The tenant's check of uploads, or ``not_found``."""
    check = UploadCheck.objects.for_tenant(tenant).filter(pk=check_id).first()
    if check is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such check; it may have expired.", param="check")
    return check
