"""Create, update, publish and retire domains."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings as django_settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError, has_dependents, not_found, require_found
from tenants.datasets.models import Corpus
from tenants.usage.services.quotas import quota_check
from versiontree.jobs.models import ACTIVE, Job, JobKind
from versiontree.names import require_slug
from versiontree.tree.models import Domain, Root, RootKind, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import dependents_of
from versiontree.tree.services.quota_reservations import quota_reserve_version
from versiontree.tree.services.versions import (
    JobPlan,
    corpus_check,
    corpus_require_size,
    parent_check,
    tables_check,
    version_create,
    version_transition,
)
from versiontree.tree.tokenizer_fit import corpus_warnings
from versiontree.tree.training_settings import (
    DEFAULT_BUDGET_MB,
    DEFAULT_VECTORS,
    SettingValue,
    rows_of,
    settings_check,
    table_check,
)


def domain_create(
    *,
    tenant: Tenant | None,
    parent: Version,
    name: str,
    corpus: Corpus,
    actor: Actor,
    alpha: float | None = None,
    budget_mb: float | None = None,
    settings: Mapping[str, Any] | None = None,
    description: str = "",
    vectors: str = DEFAULT_VECTORS,
    published: bool = True,
) -> Version:
    """Create a domain under a ready version of a root or domain; jobs pretrain it and build its table.

    The table covers ``alpha`` % of the corpus, or is filled with the best rows up to ``budget_mb``, by
    default ``DEFAULT_BUDGET_MB``. Without a tenant it is the platform's; tenants see it once it is
    ``published``. Raises ``invalid_field`` (also for a decoder), ``conflict`` (the name), ``not_found``
    (parent or corpus), ``model_not_ready``, ``corpus_too_small``, ``quota_exceeded``.
    """
    require_slug(name)
    table = table_check(
        alpha=alpha, budget_mb=budget_mb, vectors=vectors, default={"budget_mb": DEFAULT_BUDGET_MB}
    )
    config = _config(corpus, tenant, settings, table) | corpus_warnings(parent, corpus)
    with transaction.atomic():
        quota_reserve_version(tenant=tenant, jobs=2)
        if tenant is not None:
            quota_check(tenant=tenant, what="domains", having=Domain.objects.for_tenant(tenant).count())
        above = parent_check(parent=parent, tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN])
        if above.root.kind == RootKind.DECODER:
            message = f"{above.root.name} is a decoder. Domains can only be built on encoders."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param="parent")
        tables_check(above)
        domain = _create(above.root, tenant, name, description, actor)
        if tenant is None and not published:
            Domain.unscoped.filter(pk=domain.pk).update(published_at=None)
        return _create_version(domain, above, corpus, config, actor, verb="domain.create")


def domain_update(
    *,
    domain: Domain,
    corpus: Corpus,
    actor: Actor,
    alpha: float | None = None,
    budget_mb: float | None = None,
    settings: Mapping[str, Any] | None = None,
    vectors: str | None = None,
) -> Version:
    """Create the next version of a domain, pretrained on more text on top of its newest ready version.

    By default it inherits ``alpha`` or ``budget_mb`` and ``vectors`` of that version. Raises what
    ``domain_head`` and ``domain_create`` raise.
    """
    earlier = Version.unscoped.filter(domain=domain).first()
    warnings = corpus_warnings(earlier, corpus) if earlier is not None else {}
    with transaction.atomic():
        quota_reserve_version(tenant=domain.tenant, jobs=2)
        head = domain_head(domain=domain)
        table = table_check(
            alpha=alpha,
            budget_mb=budget_mb,
            vectors=head.config.get("vectors", DEFAULT_VECTORS) if vectors is None else vectors,
            default=rows_of(head.config) or {"budget_mb": DEFAULT_BUDGET_MB},
        )
        config = _config(corpus, domain.tenant, settings, table) | warnings
        return _create_version(domain, head, corpus, config, actor, verb="domain.update")


def _config(
    corpus: Corpus,
    tenant: Tenant | None,
    settings: Mapping[str, Any] | None,
    table: Mapping[str, SettingValue],
) -> dict[str, Any]:
    about = corpus_check(corpus=corpus, tenant=tenant)
    corpus_require_size(corpus=corpus, what="A domain", words=django_settings.HMI_CORPUS_MIN_WORDS)
    return {
        "corpus": about,
        "settings": settings_check(JobKind.FURTHER_PRETRAIN, settings),
        **table,
    }


def _create(root: Root, tenant: Tenant | None, name: str, description: str, actor: Actor) -> Domain:
    try:
        with transaction.atomic():
            return Domain.unscoped.create(
                root=root, tenant=tenant, name=name, description=description, created_by=person(actor)
            )
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT, f"{root.name} already has a domain named {name!r}.", param="name"
        ) from error


def _create_version(
    domain: Domain, above: Version, corpus: Corpus, config: dict[str, Any], actor: Actor, *, verb: str
) -> Version:
    version = version_create(
        owner=domain,
        root=domain.root,
        parent=above,
        tenant=domain.tenant,
        corpus=corpus,
        config=config,
        plans=[
            JobPlan(JobKind.FURTHER_PRETRAIN, {"corpus": config["corpus"], "settings": config["settings"]}),
            JobPlan(
                JobKind.BUILD_PLOT,
                {
                    "corpus": config["corpus"],
                    **rows_of(config),
                    "all_unigrams": False,
                    "settings": {"vectors": config["vectors"]},
                },
            ),
        ],
        actor=actor,
    )
    audit_record(
        verb=verb,
        subject=domain.name,
        tenant=domain.tenant,
        actor=actor,
        detail={"version": version.number, "parent": above.pk, "corpus": config["corpus"]["name"]},
    )
    return version


def domain_head(*, domain: Domain) -> Version:
    """The newest ready version of a domain. Locks the domain's row until the transaction ends.

    Raises ``not_found``, ``conflict`` while a version is being built, ``model_not_ready`` if none is ready.
    """
    assert transaction.get_connection().in_atomic_block
    locked = _lock(domain)
    versions = Version.unscoped.filter(domain=locked).select_related("root", "tenant", "domain")
    building = versions.filter(state=VersionState.BUILDING).first()
    if building is not None:
        raise HmiError(
            ErrorCode.CONFLICT, f"Version {building.number} of {locked.name} is being built.", param="domain"
        )
    head = versions.filter(state=VersionState.READY).order_by("-number").first()
    if head is None:
        raise _none_ready(locked)
    return head


@transaction.atomic
def domain_publish(*, domain: Domain, actor: Actor) -> bool:
    """Publish a platform domain, so that tenants can build upon it. False if it is published already.

    Raises ``not_found`` (unknown, or a tenant's), ``model_not_ready`` if no version of it is ready, and
    ``conflict`` if its parent domain is not published.
    """
    locked = _lock(domain)
    if locked.tenant_id is not None:
        raise not_found("domain of the platform's", param="domain")
    if locked.published_at is not None:
        return False
    versions = Version.unscoped.filter(domain=locked)
    if not versions.filter(state=VersionState.READY).exists():
        raise _none_ready(locked)
    hidden = versions.filter(number=1, parent__domain__published_at=None).exclude(parent__domain=None)
    if above := hidden.values_list("parent__domain__name", flat=True).first():
        raise HmiError(
            ErrorCode.CONFLICT, f"{locked.name} builds on {above}: publish that first.", param="domain"
        )
    Domain.unscoped.filter(pk=locked.pk).update(published_at=timezone.now())
    audit_record(verb="domain.publish", subject=locked.name, tenant=None, actor=actor)
    return True


@transaction.atomic
def domain_retire(*, domain: Domain, actor: Actor) -> int:
    """Retire all versions of a domain, so that nobody can build upon it. Returns how many.

    Models and domains that use it are served as before. Raises ``has_dependents`` while its jobs are active,
    ``not_found``, and ``invalid_transition`` if no version of it is ready.
    """
    locked = _lock(domain)
    if active := list(Job.unscoped.filter(version__domain=locked, state__in=ACTIVE)):
        raise has_dependents(f"Jobs of {locked.name} are still active; cancel them first, or wait", active)
    ready = Version.unscoped.filter(domain=locked, state=VersionState.READY).order_by("pk")
    retired = sum(
        version_transition(version_id=pk, from_state=VersionState.READY, to=VersionState.RETIRED)
        for pk in list(ready.values_list("pk", flat=True))
    )
    if not retired:
        raise HmiError(ErrorCode.INVALID_TRANSITION, f"No version of {locked.name} is ready to be retired.")
    dependents = dependents_of(locked)
    audit_record(
        verb="domain.retire",
        subject=locked.name,
        tenant=locked.tenant,
        actor=actor,
        detail={"versions": retired, "domains": dependents.domain_count, "models": dependents.hplm_count},
    )
    return retired


def _lock(domain: Domain) -> Domain:
    locked = Domain.unscoped.select_for_update(no_key=True, of=("self",)).filter(pk=domain.pk)
    return require_found(locked.select_related("tenant").first(), "domain", param="domain")


def _none_ready(domain: Domain) -> HmiError:
    message = f"No version of the domain {domain.name} is ready."
    return HmiError(ErrorCode.MODEL_NOT_READY, message, param="domain")
