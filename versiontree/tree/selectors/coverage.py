"""The coverage of a tenant's upload by the tables of roots and domains, to choose what to train on."""

from collections.abc import Sequence
from typing import Any, Final

from django.core.cache import cache
from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.base.dispatch import LONG_QUEUE, dispatch
from tenants.datasets.models import Corpus, Dataset
from versiontree.tree.models import Coverage, RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.versions import parents_ready_for, versions_visible_to

MEASURE_COVERAGE_TASK: Final = "workers.measure_coverage"
MAX_VERSIONS: Final = 100
REQUEST_INTERVAL_S: Final = 20.0
"""A measurement is requested at most once in this time."""


def coverage_targets(tenant: Tenant | None, *, root: RootKind = RootKind.ENCODER) -> list[Version]:
    """The newest ready version of each root of this kind, and of each of their domains, that the tenant can
    build upon, newest first."""
    newest: dict[tuple[str, int | None], Version] = {}
    for version in parents_ready_for(tenant, root=root):
        owner = version.domain_id if version.kind == VersionKind.DOMAIN else version.root_id
        newest.setdefault((version.kind, owner), version)
    return list(newest.values())[:MAX_VERSIONS]


def coverages_of(tenant: Tenant, upload: Corpus | Dataset) -> tuple[list[Coverage], list[Version]]:
    """The coverages of a tenant's upload, and the versions that are not measured yet."""
    targets = {version.pk: version for version in coverage_targets(tenant)}
    rows = Coverage.objects.for_tenant(tenant).filter(**_upload_filter(upload), version__in=targets)
    measured = list(rows.select_related("version__root", "version__domain__root", "version__tenant"))
    known = {row.version_id for row in measured}
    return measured, [version for pk, version in targets.items() if pk not in known]


def coverage_request(upload: Corpus | Dataset) -> None:
    """Have a worker measure the missing coverages, at most one message in ``REQUEST_INTERVAL_S``."""
    kind = upload._meta.model_name
    if cache.add(f"coverage:{kind}:{upload.pk}", True, REQUEST_INTERVAL_S):
        dispatch(MEASURE_COVERAGE_TASK, str(kind), upload.pk, queue=LONG_QUEUE)


def coverage_record(
    *,
    tenant: Tenant,
    upload: Corpus | Dataset,
    version: Version,
    levels: Sequence[int] = (0, 0, 0),
    error_message: str = "",
) -> None:
    """Store how many fragments the tables answer at each level, or the error of the measurement."""
    trigrams, bigrams, unigrams = levels
    found = {
        "trigrams": trigrams,
        "bigrams": bigrams,
        "unigrams": unigrams,
        "error_message": error_message[:300],
    }
    Coverage.unscoped.update_or_create(
        **_upload_filter(upload), version=version, defaults={"tenant": tenant, **found}
    )


def versions_built_from(tenant: Tenant, upload: Corpus | Dataset) -> QuerySet[Version]:
    """The tenant's versions that were trained on the upload, newest first."""
    return versions_visible_to(tenant).filter(**_upload_filter(upload)).order_by("-pk")


def _upload_filter(upload: Corpus | Dataset) -> dict[str, Any]:
    return {"corpus" if isinstance(upload, Corpus) else "dataset": upload}
