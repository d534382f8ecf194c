"""Parsing model references, ``[tenant/]model[@alias|:version]``, and resolving them to a version."""

import json
import re
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.base.ttl_cache import cached
from versiontree.tree.models import Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.serving_manifest import takes_pairs

_SLUG = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"


_REFERENCE = re.compile(
    rf"(?:(?P<tenant>{_SLUG})/)?(?P<hplm>{_SLUG})(?:@(?P<alias>{_SLUG})|:(?P<number>[1-9][0-9]{{0,8}}))?"
)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A parsed reference. ``tenant`` is None if it was left out, ``number`` if an alias is named."""

    tenant: str | None
    hplm: str
    alias: str
    number: int | None


def parse_reference(reference: str) -> ModelReference:
    """Parse a reference. Raises ``invalid_field``."""
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if found is None:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "A model is named tenant/model, tenant/model@alias or tenant/model:version.",
            param="model",
        )
    number = found["number"]
    return ModelReference(
        tenant=found["tenant"],
        hplm=found["hplm"],
        alias=found["alias"] or DEFAULT_ALIAS,
        number=int(number) if number else None,
    )


# Runs about once a second for every model in use. Building it with the ORM takes six times as long.
_QUERY: Final = """
    SELECT version.number, version.digest, version.config, root.name, hplm.id, hplm.task,
        (SELECT newest.digest FROM tree_version AS newest
         WHERE newest.kind = 'root' AND newest.root_id = version.root_id
         ORDER BY newest.number DESC LIMIT 1),
        (SELECT artifact.digest FROM tree_versionartifact AS link
         JOIN tree_artifact AS artifact ON artifact.id = link.artifact_id
         WHERE link.version_id = version.id AND link.role = 'cascade')
    FROM tree_version AS version
    JOIN tree_hplm AS hplm ON hplm.id = version.hplm_id
    JOIN tree_root AS root ON root.id = version.root_id
    WHERE version.tenant_id = %(tenant)s AND hplm.name = %(hplm)s AND hplm.deleted_at IS NULL AND {which}
"""

_BY_ALIAS: Final = """
    version.id = (SELECT alias.version_id FROM tree_alias AS alias
                  WHERE alias.hplm_id = hplm.id AND alias.name = %(alias)s)
"""

_BY_NUMBER: Final = "version.number = %(number)s AND version.state = 'ready'"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The version that answers a request. ``root`` is the root's name. ``root_digest`` is the digest of its
    weights, by which workers identify it. ``cascade`` is the digest of the profile that an evaluation fitted,
    "" if the profile is part of the model."""

    tenant_slug: str
    model_name: str
    root: str
    root_digest: str
    version_number: int
    digest: str
    cascade: str
    task: str
    labels: tuple[str, ...]
    hplm_id: int
    pairs: bool


def resolve_model(tenant: Tenant, reference: str) -> ResolvedModel:
    """The version that a reference names for this tenant. One query if it is found.

    Raises ``invalid_field`` (not a reference), ``not_found`` (unknown, deleted or another tenant's),
    ``model_not_ready`` (no version of it is ready).
    """
    return _resolve(tenant, _own_reference(tenant, reference))


def resolve_model_cached(tenant: Tenant, reference: str) -> ResolvedModel:
    """`resolve_model`, cached for HMI_MODEL_CACHE_S seconds. Moves of aliases and deletions show that much
    later. Errors are not cached.
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
    which = _BY_ALIAS if wanted.number is None else _BY_NUMBER
    given: dict[str, int | str | None] = {
        "tenant": tenant.pk,
        "hplm": wanted.hplm,
        "alias": wanted.alias,
        "number": wanted.number,
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUERY.format(which=which), given)
        found = cursor.fetchone()
    if found is None:
        raise _unresolved_error(tenant, wanted)
    number, digest, config_json, root_name, hplm_id, task, root_digest, cascade = found
    config = json.loads(config_json)
    return ResolvedModel(
        tenant_slug=tenant.slug,
        model_name=wanted.hplm,
        root=root_name,
        root_digest=root_digest,
        version_number=number,
        digest=digest,
        cascade=cascade or "",
        task=task,
        labels=tuple(config.get("labels", ())),
        hplm_id=hplm_id,
        pairs=takes_pairs(task, config),
    )


def _unresolved_error(tenant: Tenant, wanted: ModelReference) -> HmiError:
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
