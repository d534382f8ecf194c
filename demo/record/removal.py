"""Remove what the demo made, and nothing else.

A model that somebody has trained further, and a root or domain that somebody builds upon, are theirs: they
stay, as does a dataset that is in use. Tenants stay too, for the audit log and for billing. They are
suspended unless they hold something that the demo did not make.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from django.db import models, transaction
from django.db.models import ProtectedError, Q

from demo.record.models import DemoPart
from tenants.accounts.models import Membership, Tenant
from tenants.accounts.services.tenants import tenant_suspend
from tenants.audit.services import Actor
from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.services.corpora import corpus_delete
from tenants.datasets.services.datasets import dataset_delete
from versiontree.jobs.models import ACTIVE, Job
from versiontree.jobs.services.control import job_cancel
from versiontree.tree.models import Alias, AliasMove, Artifact, Domain, Hplm, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.services.garbage_collection import artifacts_discard
from versiontree.tree.serving_manifest import manifest_publish_on_commit

REASON: Final = "The demo was removed."


def parts_remove(parts: Collection[DemoPart], *, actor: Actor) -> bool:
    """Remove these parts. False while their jobs are stopping, and nothing is removed."""
    if not _jobs_ended(parts, actor):
        return False
    for part in sorted(parts, key=_depth):
        with transaction.atomic():
            _remove(part, actor)
    return True


def tenants_suspend(tenants: Collection[Tenant], *, actor: Actor) -> None:
    """Suspend the tenants of which the demo has nothing any more, and nobody else has anything."""
    for tenant in tenants:
        owned = (Hplm, Dataset, Corpus, Domain, DemoPart)
        others = Membership.unscoped.filter(tenant=tenant).exclude(user__username=tenant.slug)
        living = Hplm.unscoped.filter(tenant=tenant, deleted_at=None)
        kept = [model.unscoped.filter(tenant=tenant) for model in owned if model is not Hplm]
        if not any(rows.exists() for rows in (living, others, *kept)):
            tenant_suspend(tenant=tenant, actor=actor, reason=REASON)


def part_versions_of(part: DemoPart) -> "models.QuerySet[Version]":
    """All versions of a part's root, domain or model."""
    root = Q(root=part.root, kind=VersionKind.ROOT) if part.root_id else Q(pk=None)
    domain = Q(domain=part.domain) if part.domain_id else Q(pk=None)
    hplm = Q(hplm=part.hplm) if part.hplm_id else Q(pk=None)
    return Version.unscoped.filter(root | domain | hplm)


def _made(part: DemoPart) -> "models.QuerySet[Version]":
    """The versions that the demo made; people may have trained a model further."""
    return part_versions_of(part).filter(created_at__lte=part.made_at)


def _depth(part: DemoPart) -> int:
    """Models come before their domain, and that before its root."""
    return 2 if part.root_id else 1 if part.domain_id else 0


def _jobs_ended(parts: Collection[DemoPart], actor: Actor) -> bool:
    versions = [pk for part in parts for pk in _made(part).values_list("pk", flat=True)]
    active = Job.unscoped.filter(version__in=versions, state__in=ACTIVE)
    for job in active.filter(cancel_requested_at=None).select_related("tenant"):
        with suppress(HmiError):  # it ended meanwhile
            job_cancel(job=job, actor=actor)
    return not active.exists()


def _remove(part: DemoPart, actor: Actor) -> None:
    made = list(_made(part).order_by("-number"))
    keys = [version.pk for version in made]
    others = part_versions_of(part).exclude(pk__in=keys)
    builds = Version.unscoped.filter(parent__in=keys).exclude(pk__in=keys)
    if not others.exists() and not builds.exists():
        _versions_delete(part, made)
    dataset, corpus = part.dataset, part.corpus
    part.delete()
    with suppress(HmiError, ProtectedError):  # in use
        if dataset is not None:
            dataset_delete(dataset=dataset, actor=actor)
        if corpus is not None:
            corpus_delete(corpus=corpus, actor=actor)


def _versions_delete(part: DemoPart, versions: Collection[Version]) -> None:
    """Delete the versions with their jobs, and what they are versions of."""
    of_versions = Q(version_links__version__in=versions) | Q(evaluations__version__in=versions)
    found = Artifact.objects.filter(of_versions).distinct().values_list("kind", "digest", "size")
    artifacts = [((kind, digest), size) for kind, digest, size in found]
    if part.hplm is not None:
        AliasMove.unscoped.filter(hplm=part.hplm).delete()
        Alias.unscoped.filter(hplm=part.hplm).delete()
    # A ready version keeps its artifacts.
    rows = Version.unscoped.filter(pk__in=[version.pk for version in versions])
    rows.filter(state=VersionState.READY).update(state=VersionState.RETIRED)
    jobs = Job.unscoped.filter(version__in=versions)
    while awaited := [key for key in jobs.values_list("after", flat=True) if key is not None]:
        jobs.exclude(pk__in=awaited).delete()
    jobs.delete()
    for version in versions:
        version.delete()
    for owner in (part.hplm, part.domain, part.root):
        if owner is not None:
            owner.delete()
    manifest_publish_on_commit()
    transaction.on_commit(lambda: artifacts_discard(artifacts))
