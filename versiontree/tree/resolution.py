"""Parsing model references, ``[tenant/]model[@alias|:version]``, and resolving them to a version.

A root that can be called is named without a tenant: ``root[:version]``. A tenant's model of that name takes
precedence.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from django.conf import settings
from django.db import connection

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError, most_similar, not_found
from tenants.base.ttl_cache import cached
from tenants.datasets.models import GENERATIVE_TASKS, Task
from versiontree.names import SLUG
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.callable_roots import base_task, callable_root_versions_for
from versiontree.tree.serving_manifest import takes_pairs

MAX_LISTED: Final = 20
"""Of the versions and aliases in an error."""
MAX_COMPARED: Final = 200
"""How many names of models are compared with one that does not exist."""

_REFERENCE = re.compile(
    rf"(?:(?P<tenant>{SLUG})/)?(?P<hplm>{SLUG})(?:@(?P<alias>{SLUG})|:(?P<number>[1-9][0-9]{{0,8}}))?"
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
# The alias's own version comes first, then its canary.
_QUERY: Final = """
    SELECT version.number, version.digest, version.config, version.policy, root.name, hplm.id, hplm.task,
        (WITH RECURSIVE above AS (
            SELECT version.parent_id, version.kind, version.digest
            UNION ALL
            SELECT up.parent_id, up.kind, up.digest
            FROM tree_version AS up JOIN above ON up.id = above.parent_id AND above.kind <> 'root'
         ) SELECT above.digest FROM above WHERE above.kind = 'root'),
        (SELECT artifact.digest FROM tree_versionartifact AS link
         JOIN tree_artifact AS artifact ON artifact.id = link.artifact_id
         WHERE link.version_id = version.id AND link.role = 'cascade'),
        {percent} AS percent
    FROM tree_version AS version
    JOIN tree_hplm AS hplm ON hplm.id = version.hplm_id
    JOIN tree_root AS root ON root.id = version.root_id
    {alias}
    WHERE version.tenant_id = %(tenant)s AND hplm.name = %(hplm)s AND hplm.deleted_at IS NULL AND {which}
    ORDER BY percent
"""

_BY_ALIAS: Final = _QUERY.format(
    percent="CASE WHEN version.id = alias.canary_id THEN alias.canary_percent ELSE 0 END",
    alias="JOIN tree_alias AS alias ON alias.hplm_id = hplm.id AND alias.name = %(alias)s",
    which="version.id IN (alias.version_id, alias.canary_id)",
)

_BY_NUMBER: Final = _QUERY.format(
    percent="0", alias="", which="version.number = %(number)s AND version.state = 'ready'"
)


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The version that answers a request. ``root`` is the root's name. ``root_digest`` is the digest of its
    weights, by which workers identify it. ``cascade`` is the digest of the profile that an evaluation fitted,
    "" if the profile is part of the model. ``hplm_id`` is None for a root. ``policy`` is the version's own,
    or empty. ``canary`` answers ``canary_percent`` of the requests in its place, if the reference is an alias
    with a canary."""

    tenant_slug: str
    model_name: str
    root: str
    root_digest: str
    version_number: int
    digest: str
    cascade: str
    task: str
    labels: tuple[str, ...]
    hplm_id: int | None
    pairs: bool
    policy: str
    canary: "ResolvedModel | None" = None
    canary_percent: int = 0

    @property
    def is_generative(self) -> bool:
        """Whether it writes text."""
        return self.task in GENERATIVE_TASKS

    @property
    def is_base(self) -> bool:
        """Whether it is a root, which no tenant has trained."""
        return self.digest == self.root_digest

    @property
    def full_name(self) -> str:
        """The name with its tenant, which a root has none of."""
        return self.model_name if self.is_base else f"{self.tenant_slug}/{self.model_name}"


def require_encoder(model: ResolvedModel, *, embed: bool = False) -> ResolvedModel:
    """The model, if it is built on an encoder. ``embed``: embeddings are asked for, which all of them give.

    Raises ``invalid_field`` for a generative model, and for one that only gives embeddings.
    """
    if model.is_generative:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{model.model_name} is a generative model. Use /v1/chat/completions or /v1/completions.",
            param="model",
        )
    if model.task == Task.EMBEDDING and not embed:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{model.model_name} only gives embeddings. Use /v1/embeddings.",
            param="model",
        )
    return model


def require_generative(model: ResolvedModel, *, chat: bool = False) -> ResolvedModel:
    """The model, if it writes text; with ``chat``, if it answers messages. Raises ``invalid_field`` for one
    that is built on an encoder, and for a chat with a root whose checkpoint has no chat template."""
    if not model.is_generative:
        task, address = Task(model.task).label.lower(), "/api/v1/infer"
        if model.task == Task.EMBEDDING:
            address = "/v1/embeddings"
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{model.model_name} is not generative, its task is {task}. Use {address}.",
            param="model",
        )
    if chat and model.is_base and model.task != Task.CHAT:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{model.model_name} was not trained for chats. Use /v1/completions.",
            param="model",
        )
    return model


def resolve_model(tenant: Tenant, reference: str) -> ResolvedModel:
    """The version that a reference names for this tenant. One query if it is found, two for a root.

    Raises ``invalid_field`` (not a reference), ``not_found`` (unknown, deleted or another tenant's),
    ``model_not_ready`` (no version of it is ready).
    """
    return _resolve(tenant, _own_reference(tenant, reference))


def resolve_model_cached(tenant: Tenant, reference: str) -> ResolvedModel:
    """`resolve_model`, cached for HMI_MODEL_CACHE_S seconds.

    Moves of aliases, changed policies and deletions show that much later. Errors are not cached.
    """
    wanted = _own_reference(tenant, reference)
    which = f"@{wanted.alias}" if wanted.number is None else f":{wanted.number}"
    name = f"model:{tenant.pk}/{wanted.hplm}{which}"
    unscoped = replace(wanted, tenant=None)  # with and without its tenant, a model has one entry
    found = cached(name, lambda: _resolve(tenant, unscoped), settings.HMI_MODEL_CACHE_S)
    if found.is_base and wanted.tenant is not None:  # a root has no tenant in its name
        raise _unresolved_error(tenant, wanted)
    return found


def _own_reference(tenant: Tenant, reference: str) -> ModelReference:
    wanted = parse_reference(reference)
    if wanted.tenant not in (None, tenant.slug):
        raise not_found("model", param="model", similar=_similar_name(tenant, wanted.hplm))
    return wanted


def _similar_name(tenant: Tenant, name: str) -> str | None:
    """The tenant's own model, or the base model that it may call, with the most similar name."""
    own = Hplm.objects.for_tenant(tenant).filter(deleted_at=None, versions__state=VersionState.READY)
    newest = own.distinct().order_by("-pk").values_list("name", flat=True)[:MAX_COMPARED]
    full = {model: f"{tenant.slug}/{model}" for model in newest}
    bases = callable_root_versions_for(tenant).values_list("root__name", flat=True)[:MAX_COMPARED]
    found = most_similar(name, [*full, *bases])
    return None if found is None else full.get(found, found)


def _resolve(tenant: Tenant, wanted: ModelReference) -> ResolvedModel:
    query = _BY_ALIAS if wanted.number is None else _BY_NUMBER
    given: dict[str, int | str | None] = {
        "tenant": tenant.pk,
        "hplm": wanted.hplm,
        "alias": wanted.alias,
        "number": wanted.number,
    }
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        rows = cursor.fetchall()
    if not rows:
        base = _base(tenant, wanted)
        if base is None:
            raise _unresolved_error(tenant, wanted)
        return base
    resolved, *canaries = (_resolved(tenant, wanted, row) for row in rows)
    return replace(resolved, canary=canaries[0], canary_percent=rows[1][-1]) if canaries else resolved


def _resolved(tenant: Tenant, wanted: ModelReference, row: tuple[Any, ...]) -> ResolvedModel:
    number, digest, config_json, policy, root_name, hplm_id, task, root_digest, cascade, _ = row
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
        policy=policy,
    )


def _base(tenant: Tenant, wanted: ModelReference) -> ResolvedModel | None:
    """The root that the reference names, if it can be called and its newest ready version is meant."""
    if wanted.tenant is not None or wanted.alias != DEFAULT_ALIAS:
        return None
    version = callable_root_versions_for(tenant).filter(root__name=wanted.hplm).first()
    if version is None or wanted.number not in (None, version.number):
        return None
    return ResolvedModel(
        tenant_slug=tenant.slug,
        model_name=wanted.hplm,
        root=wanted.hplm,
        root_digest=version.digest,
        version_number=version.number,
        digest=version.digest,
        cascade="",
        task=base_task(version),
        labels=(),
        hplm_id=None,
        pairs=False,
        policy="",
    )


def _unresolved_error(tenant: Tenant, wanted: ModelReference) -> HmiError:
    living = Version.objects.for_tenant(tenant).filter(hplm__name=wanted.hplm, hplm__deleted_at=None)
    if wanted.number is not None:
        living = living.filter(number=wanted.number)
    elif wanted.alias != DEFAULT_ALIAS:
        living = living.none()
    version = living.order_by("-number").first()
    if version is None:
        return _not_found(tenant, wanted)
    return HmiError(
        ErrorCode.MODEL_NOT_READY,
        f"{version.in_words} cannot answer: it is {version.get_state_display().lower()}.",
        param="model",
        details={"version": version.number, "state": version.state},
    )


def _not_found(tenant: Tenant, wanted: ModelReference) -> HmiError:
    """Which versions and aliases the model has, if there is the model."""
    versions = Version.objects.for_tenant(tenant).filter(hplm__name=wanted.hplm, hplm__deleted_at=None)
    numbers = sorted(versions.filter(state=VersionState.READY).values_list("number", flat=True))
    if not versions.exists():
        return not_found("model", param="model", similar=_similar_name(tenant, wanted.hplm))
    aliases = Alias.objects.for_tenant(tenant).filter(hplm__name=wanted.hplm, hplm__deleted_at=None)
    names = list(aliases.order_by("moved_at", "name").values_list("name", flat=True))
    asked = f"alias {wanted.alias}" if wanted.number is None else f"version {wanted.number}"
    ready = f"Ready versions: {_ranges(numbers)}" if numbers else "No version is ready"
    return HmiError(
        ErrorCode.NOT_FOUND,
        f"{wanted.hplm} has no {asked}. {ready}. Aliases: {_listed(names) or 'none'}.",
        param="model",
        details={"versions": numbers[-MAX_LISTED:], "aliases": names[-MAX_LISTED:]},
    )


def _ranges(numbers: list[int]) -> str:
    """Numbers as text, with runs of them as ranges: 1-4, 6."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return _listed(["-".join(map(str, run)) for run in runs])


def _listed(names: list[str]) -> str:
    """The newest of the names, which are the last, and how many more there are."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[-MAX_LISTED:]) + (f" and {more} more" if more > 0 else "")
