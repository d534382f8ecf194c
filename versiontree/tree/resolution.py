"""Which version a model reference means."""

import json
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.base.ttl_cache import cached
from versiontree.tree.models import Version
from versiontree.tree.models.alias import DEFAULT_ALIAS
from versiontree.tree.references import ModelReference, parse_reference
from versiontree.tree.serving_manifest import takes_pairs

# Asked once a moment for every model in use: Django would take six times as long to put it into words.
_FOUND: Final = """
    SELECT version.number, version.digest, version.config, root.name, hplm.id, hplm.task,
        (SELECT newest.digest FROM tree_version AS newest
         WHERE newest.kind = 'root' AND newest.root_id = version.root_id
         ORDER BY newest.number DESC LIMIT 1)
    FROM tree_version AS version
    JOIN tree_hplm AS hplm ON hplm.id = version.hplm_id
    JOIN tree_root AS root ON root.id = version.root_id
    WHERE version.tenant_id = %(tenant)s AND hplm.name = %(hplm)s AND hplm.deleted_at IS NULL AND {which}
"""


_ALIASED: Final = """
    version.id = (SELECT alias.version_id FROM tree_alias AS alias
                  WHERE alias.hplm_id = hplm.id AND alias.name = %(alias)s)
"""


_NUMBERED: Final = "version.number = %(number)s AND version.state = 'ready'"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Exactly which version answers: it travels with the request. ``root`` is the root's name,
    ``root_digest`` that of its weights, by which workers know it."""

    tenant_slug: str
    model_name: str
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
    """`resolve_model`, as it was at most HMI_MODEL_CACHE_S ago: an alias that moves and a model that is
    deleted show that much later. What was refused is asked again each time.
    """
    wanted = _own_reference(tenant, reference)
    which = f"@{wanted.alias}" if wanted.number is None else f":{wanted.number}"
    name = f"model:{tenant.pk}/{wanted.hplm}{which}"
    return cached(name, lambda: _resolve(tenant, wanted), settings.HMI_MODEL_CACHE_S)


def _own_reference(tenant: Tenant, reference: str) -> ModelReference:
    wanted = parse_reference(reference)
    if wanted.tenant not in (None, tenant.slug):
        raise not_found("model", param="model")
    return wanted


def _resolve(tenant: Tenant, wanted: ModelReference) -> ResolvedModel:
    which = _ALIASED if wanted.number is None else _NUMBERED
    given: dict[str, int | str | None] = {
        "tenant": tenant.pk,
        "hplm": wanted.hplm,
        "alias": wanted.alias,
        "number": wanted.number,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FOUND.format(which=which), given)
        found = cursor.fetchone()
    if found is None:
        raise _why_unresolved(tenant, wanted)
    number, digest, told, root_name, hplm_id, task, root_digest = found
    config = json.loads(told)
    return ResolvedModel(
        tenant_slug=tenant.slug,
        model_name=wanted.hplm,
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
        return not_found("model", param="model")
    return HmiError(
        ErrorCode.MODEL_NOT_READY,
        f"{version.in_words} cannot answer: it is {version.get_state_display().lower()}.",
        param="model",
        details={"version": version.number, "state": version.state},
    )
