"""A tenant with so many hPLMs, jobs and rows of usage that whatever grows with them shows."""

import hashlib

from hmi_site.demo.history import jobs_remember, usage_remember
from hmi_site.demo.registered import hplms_register
from hmi_site.demo.statistics import statistics_gather
from tenants.models import Tenant
from tests.integration.versiontree.grove import corpus, dataset
from versiontree.artifacts import StoredArtifact
from versiontree.models import Version


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
    """hPLMs called crowd-00001 and so on, like the ready version `like`, their past, and uploads."""
    like.refresh_from_db()
    names = [f"{name}-{number + 1:05}" for number in range(hplms)]
    hplms_register(like, [tenant] * hplms, names, [_nothing(name) for name in names])
    made = Version.unscoped.filter(hplm__name__startswith=f"{name}-", tenant=tenant)
    versions = list(made.select_related("hplm").order_by("pk"))
    jobs_remember(versions=versions, count=jobs)
    usage_remember(versions=versions, count=usage)
    for number in range(data):
        dataset(tenant, f"{name} dataset {number}")
        corpus(tenant, f"{name} corpus {number}")
    statistics_gather()


def _nothing(name: str) -> StoredArtifact:
    """An artifact of which there are only the rows."""
    return StoredArtifact(
        kind="hplm", digest=hashlib.sha256(name.encode()).hexdigest(), size=3_000_000, files={}
    )
