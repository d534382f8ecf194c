"""Queries for roots, domains, models, versions and aliases. ``tenant=None`` is the platform."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from django.db.models import Prefetch, Q, QuerySet, Sum

from tenants.accounts.models import Tenant
from tenants.base.errors import require_found
from tenants.datasets.models import GENERATIVE_TASKS, Corpus
from versiontree.tree.models import (
    Alias,
    AliasMove,
    Artifact,
    Domain,
    Evaluation,
    Hplm,
    Root,
    RootKind,
    Version,
    VersionArtifact,
)
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import UNCONVERTED, VersionKind, VersionState
from versiontree.tree.selectors.lineage import versions_with_tree_fields

VersionName = tuple[int | None, str, int]
"""The id of the tenant, the name of the model, and the number of the version."""


def roots_all() -> QuerySet[Root]:
    """All roots, by name. Every tenant sees them."""
    return Root.objects.all()


def root_by_name(name: str) -> Root:
    """The root with this name, or ``not_found``."""
    return require_found(Root.objects.filter(name=name).first(), "root")


def has_ready_root() -> bool:
    """Whether there is a root that can be built upon."""
    ready = Version.unscoped.filter(kind=VersionKind.ROOT, state=VersionState.READY)
    return ready.filter(root__retired_at=None).exists()


def domains_visible_to(tenant: Tenant | None) -> QuerySet[Domain]:
    """The platform's domains and the tenant's own."""
    return (
        Domain.unscoped.filter(_domain_visibility(tenant))
        .select_related("root", "tenant")
        .order_by("root__name", "name")
    )


def domain_of(tenant: Tenant | None, domain_id: int) -> Domain:
    """A domain of the tenant (None: of the platform), or ``not_found``."""
    found = Domain.unscoped.select_related("root", "tenant").filter(pk=domain_id, tenant=tenant).first()
    return require_found(found, "domain")


def domain_visible_to(tenant: Tenant | None, domain_id: int) -> Domain:
    """A domain of the platform or the tenant, or ``not_found``."""
    return require_found(domains_visible_to(tenant).filter(pk=domain_id).first(), "domain")


def corpus_usable_by(tenant: Tenant | None, corpus_id: int) -> Corpus:
    """A corpus of the platform or the tenant, or ``not_found``."""
    return require_found(corpora_usable_by(tenant).filter(pk=corpus_id).first(), "corpus", param="corpus")


def corpora_usable_by(tenant: Tenant | None) -> QuerySet[Corpus]:
    """The platform's corpora and the tenant's own, newest first."""
    return Corpus.unscoped.filter(_visible(tenant))


def hplms_of(tenant: Tenant, *, words: str = "") -> QuerySet[Hplm]:
    """The tenant's models with these words in their name, with their aliases, without deleted models."""
    aliases = Alias.objects.for_tenant(tenant).select_related("version", "canary")
    living = Hplm.objects.for_tenant(tenant).filter(deleted_at=None)
    for word in words.split():
        living = living.filter(name__icontains=word)
    return (
        living.select_related("tenant")
        .prefetch_related(Prefetch("aliases", queryset=aliases))
        .order_by("name")
    )


def hplm_of(tenant: Tenant, name: str) -> Hplm:
    """The tenant's model with this name, or ``not_found``."""
    return require_found(hplms_of(tenant).filter(name=name).first(), "model")


def versions_visible_to(tenant: Tenant | None) -> QuerySet[Version]:
    """The platform's versions and the tenant's own, without those of deleted models."""
    rows: QuerySet[Version] = Version.unscoped.filter(version_visibility(tenant)).exclude(
        hplm__deleted_at__isnull=False
    )
    return rows.select_related("root", "domain__root", "hplm__tenant", "tenant")


def version_visible_to(tenant: Tenant | None, version_id: int, *, param: str | None = None) -> Version:
    """A version of the platform or the tenant, or ``not_found``."""
    found = versions_visible_to(tenant).filter(pk=version_id).first()
    return require_found(found, "version", param=param)


def hplm_version(hplm: Hplm, number: int) -> Version:
    """The version of a model with this number, or ``not_found``."""
    found = Version.unscoped.filter(hplm=hplm, number=number).first()
    return require_found(found, "version of this model", param="version")


def hplm_versions_named(names: Collection[VersionName]) -> dict[VersionName, Version]:
    """The ready versions of models that are not deleted, by name. One query."""
    if not names:
        return {}
    tenants, models, numbers = (set(column) for column in zip(*names, strict=True))
    rows = Version.unscoped.filter(
        kind=VersionKind.HPLM,
        state=VersionState.READY,
        tenant_id__in=tenants,
        hplm__name__in=models,
        hplm__deleted_at=None,
        number__in=numbers,
    )
    found = {(row.tenant_id, row.name, row.number): row for row in rows.select_related("hplm")}
    return {key: row for key, row in found.items() if key in names}


def parents_ready_for(tenant: Tenant | None, *, root: RootKind = RootKind.ENCODER) -> QuerySet[Version]:
    """The ready versions of roots of this kind and their domains that the tenant can build upon, newest
    first. Roots that were not converted or are retired are left out."""
    ready = versions_visible_to(tenant).filter(state=VersionState.READY)
    rows = ready.filter(root__kind=root, root__retired_at=None)
    return rows.exclude(kind=VersionKind.HPLM).exclude(UNCONVERTED).order_by("-ready_at")


def root_kind_of(task: str | None) -> RootKind:
    """The kind of root that models for a task stand on; that of most tasks for None."""
    return RootKind.DECODER if task in GENERATIVE_TASKS else RootKind.ENCODER


def roots_building(kind: RootKind) -> list[str]:
    """The names of roots of this kind whose first version is being built."""
    rows = Version.unscoped.filter(kind=VersionKind.ROOT, state=VersionState.BUILDING, number=1)
    names = rows.filter(root__kind=kind, root__retired_at=None).order_by("pk")
    return list(names.values_list("root__name", flat=True))


def tree_for(tenant: Tenant | None, *, among: Iterable[Version] | None = None) -> list[Version]:
    """The versions that the tenant sees, or those ``among`` these, parents first, with ``tree_depth``.

    At most three queries for any size.
    """
    visible = versions_visible_to(tenant) if among is None else among
    hplms = {version.pk: version.hplm_id for version in visible}
    # The ancestors of a model's version are of the same model, a domain or a root: skip other models.
    ancestors = Q(hplm=None) | Q(hplm__in=set(hplms.values()) - {None})
    rows = versions_with_tree_fields().tree_filter(_visible(tenant) & ancestors)
    chosen = rows.filter(pk__in=hplms).select_related("root", "domain__root", "hplm__tenant", "tenant")
    return sorted(chosen.prefetch_related("jobs"), key=lambda node: node.pk)


def artifact_bytes(tenant: Tenant) -> int:
    """Bytes of the artifacts and stored answers of the tenant's versions, without those of deleted models."""
    deleted = Version.objects.for_tenant(tenant).filter(hplm__deleted_at__isnull=False)
    links = VersionArtifact.objects.for_tenant(tenant).exclude(version__in=deleted)
    answers = Evaluation.objects.for_tenant(tenant).exclude(version__in=deleted)
    owned = Artifact.objects.filter(
        pk__in=links.order_by().values("artifact").union(answers.order_by().values("artifact"), all=True)
    )
    return int(owned.aggregate(total=Sum("size"))["total"] or 0)


def aliases_of(hplm: Hplm) -> QuerySet[Alias]:
    """The aliases of a model, by name, with their versions."""
    return Alias.unscoped.filter(hplm=hplm).select_related("version", "canary", "hplm").order_by("name")


def alias_of(hplm: Hplm, name: str) -> Alias:
    """The alias of a model with this name, or ``not_found``."""
    return require_found(aliases_of(hplm).filter(name=name).first(), "alias of this model", param="alias")


def default_of(version: Version) -> Version | None:
    """The version that ``default`` of the same model points at."""
    rows = Alias.unscoped.filter(hplm=version.hplm_id, name=DEFAULT_ALIAS).select_related("version__root")
    alias = rows.first()
    return alias.version if alias else None


def alias_moves_of(hplm: Hplm) -> QuerySet[AliasMove]:
    """The moves of a model's aliases, newest first."""
    return AliasMove.unscoped.filter(hplm=hplm).select_related("from_version", "to_version", "moved_by")


def versions_of(owner: Root | Domain | Hplm) -> QuerySet[Version]:
    """The versions of a root, domain or model, newest first."""
    field = {Root: "root", Domain: "domain", Hplm: "hplm"}[type(owner)]
    kind = {Root: VersionKind.ROOT, Domain: VersionKind.DOMAIN, Hplm: VersionKind.HPLM}[type(owner)]
    rows: QuerySet[Version] = Version.unscoped.filter(**{field: owner}, kind=kind)
    return rows.select_related("root", "domain__root", "hplm__tenant", "parent", "tenant").order_by("-number")


def _visible(tenant: Tenant | None) -> Q:
    return Q(tenant=None) | Q(tenant=tenant) if tenant else Q(tenant=None)


def version_visibility(tenant: Tenant | None) -> Q:
    """Filter for versions of roots, of published platform domains, and of the tenant.

    The platform (None) sees all of its own versions.
    """
    if tenant is None:
        return Q(tenant=None)
    published = Q(domain=None) | Q(domain__published_at__isnull=False)
    return Q(Q(tenant=None) & published) | Q(tenant=tenant)


def _domain_visibility(tenant: Tenant | None) -> Q:
    if tenant is None:
        return Q(tenant=None)
    return Q(tenant=None, published_at__isnull=False) | Q(tenant=tenant)


def version_warnings(version: Version) -> list[str]:
    """The warnings in the version's config and in its metrics, without duplicates."""
    sources: Iterable[Any] = (version.config, *version.metrics.values())
    found = [warning for source in sources if isinstance(source, Mapping) for warning in _warnings_in(source)]
    return list(dict.fromkeys(found))


def _warnings_in(source: Mapping[str, Any]) -> Sequence[str]:
    warnings = source.get("warnings") or []
    return [str(warning) for warning in warnings] if isinstance(warnings, list) else []


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether the value is an int or float, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one. For JSON that may come from an import."""
    return value if isinstance(value, Mapping) else {}
