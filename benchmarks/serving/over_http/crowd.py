"""So much of everything in one tenant that whatever grows with it shows: the rows alone, without files.

Imported once Django knows its settings.
"""

import hashlib

from demo.history import jobs_create, requests_create, usage_create
from demo.populate import hplms_register, statistics_gather
from tenants.accounts.models import Tenant
from tenants.datasets.models import Corpus, Dataset, DatasetSplit
from versiontree.artifact_store import StoredArtifact
from versiontree.tree.models import Version


def crowd(
    tenant: Tenant,
    like: Version,
    *,
    hplms: int,
    jobs: int = 0,
    usage: int = 0,
    data: int = 0,
    name: str = "crowd",
) -> None:
    """Models called crowd-00001 and so on, like the ready version `like`, their past, and so many datasets
    and corpora, called "crowd dataset 0" and "crowd corpus 0" and so on."""
    names = [f"{name}-{number + 1:05}" for number in range(hplms)]
    hplms_register(like, [tenant] * hplms, names, [_nothing(name) for name in names])
    made = Version.unscoped.filter(hplm__name__startswith=f"{name}-", tenant=tenant)
    versions = list(made.select_related("hplm").order_by("pk"))
    jobs_create(versions=versions, count=jobs)
    usage_create(versions=versions, count=usage)
    requests_create(versions=versions, count=usage)
    _uploads(tenant, [f"{name} {{}} {number}" for number in range(data)])
    statistics_gather()


def _uploads(tenant: Tenant, names: list[str]) -> None:
    corpora = [name.format("corpus") for name in names]
    Corpus.unscoped.bulk_create(
        Corpus(tenant=tenant, name=one, sha256=_sha256(one), size_bytes=1000, rows=5000, words=50_000)
        for one in corpora
    )
    datasets = Dataset.unscoped.bulk_create(
        Dataset(tenant=tenant, name=name.format("dataset"), task="classification", labels=["no", "yes"])
        for name in names
    )
    DatasetSplit.unscoped.bulk_create(
        DatasetSplit(dataset=one, split=split, sha256=_sha256(one.name + split), size_bytes=100, rows=10)
        for one in datasets
        for split in ("train", "dev", "test")
    )


def _nothing(name: str) -> StoredArtifact:
    return StoredArtifact(kind="hplm", digest=_sha256(name), size=200_000, files={})


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
