"""Which version a model reference means."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import OuterRef, Subquery

from tenants.errors import ErrorCode, HmiError
from tenants.models import Tenant
from tenants.remembering import remembered
from versiontree.errors import not_found
from versiontree.models import Version
from versiontree.models.alias import DEFAULT_ALIAS
from versiontree.models.version import VersionKind, VersionState
from versiontree.references import ModelReference, parse_reference
from versiontree.serving import takes_pairs


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Exactly which version answers: it travels with the request. ``root`` is the root's name,
    ``root_digest`` that of its weights, by which workers know it."""

    tenant_slug: str
    hplm_name: str
    root: str
    root_digest: str
    version_number: int
    digest: str
    task: str
    labels: tuple[str, ...]
    hplm_id: int
    pairs: bool


def resolve_model(tenant: Tenant, reference: str) -> ResolvedModel:
    """The version that a reference means for this tenant, in one query when it is there.

    Raises ``invalid_field`` (not a reference), ``not_found`` (unknown, deleted or another tenant's),
    ``model_not_ready`` (there, but nothing of it can answer yet).
    """
    return _resolve(tenant, _own_reference(tenant, reference))


def resolve_model_lately(tenant: Tenant, reference: str) -> ResolvedModel:
    """`resolve_model`, as it was at most HMI_MODEL_CACHE_S ago: an alias that moves and an hPLM that is
    deleted show that much later. What was refused is asked again each time.
    """
    wanted = _own_reference(tenant, reference)
    which = f"@{wanted.alias}" if wanted.number is None else f":{wanted.number}"
    name = f"model:{tenant.pk}/{wanted.hplm}{which}"
    return remembered(name, lambda: _resolve(tenant, wanted), settings.HMI_MODEL_CACHE_S)


def _own_reference(tenant: Tenant, reference: str) -> ModelReference:
    wanted = parse_reference(reference)
    if wanted.tenant not in (None, tenant.slug):
        raise not_found("hPLM", param="model")
    return wanted


def _resolve(tenant: Tenant, wanted: ModelReference) -> ResolvedModel:
    rows = Version.objects.for_tenant(tenant).filter(hplm__name=wanted.hplm, hplm__deleted_at=None)
    if wanted.number is None:
        rows = rows.filter(aliases__name=wanted.alias)
    else:
        rows = rows.filter(number=wanted.number, state=VersionState.READY)
    root = Version.unscoped.filter(kind=VersionKind.ROOT, root=OuterRef("root")).order_by("-number")
    found = rows.values_list(
        *("number", "digest", "config", "root__name", "hplm_id", "hplm__task"),
        Subquery(root.values("digest")[:1]),
    ).first()
    if found is None:
        raise _why_unresolved(tenant, wanted)
    number, digest, config, root_name, hplm_id, task, root_digest = found
    return ResolvedModel(
        tenant_slug=tenant.slug,
        hplm_name=wanted.hplm,
        root=root_name,
        root_digest=root_digest,
        version_number=number,
        digest=digest,
        task=task,
        labels=tuple(config.get("labels", ())),
        hplm_id=hplm_id,
        pairs=takes_pairs(task, config),
    )


def _why_unresolved(tenant: Tenant, wanted: ModelReference) -> HmiError:
    living = Version.objects.for_tenant(tenant).filter(hplm__name=wanted.hplm, hplm__deleted_at=None)
    if wanted.number is not None:
        living = living.filter(number=wanted.number)
    elif wanted.alias != DEFAULT_ALIAS:
        living = living.none()
    version = living.order_by("-number").first()
    if version is None:
        return not_found("hPLM", param="model")
    return HmiError(
        ErrorCode.MODEL_NOT_READY,
        f"{version.in_words} cannot answer: it is {version.get_state_display().lower()}.",
        param="model",
        details={"version": version.number, "state": version.state},
    )
