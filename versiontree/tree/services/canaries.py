"""Start, promote and end canaries: a second version that answers a share of the requests to an alias."""

from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.usage.selectors import answers_by_day
from tenants.usage.services.answer_counts import COUNTED
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.models.hplm import MAX_CANARY_PERCENT
from versiontree.tree.services.aliases import CANARY_FIELDS, alias_move, alias_target, canary_clear, hplm_lock
from versiontree.tree.serving_manifest import manifest_publish_on_commit, takes_pairs


@transaction.atomic
def canary_start(*, hplm: Hplm, name: str, version: Version, percent: int, actor: Actor) -> Alias:
    """Let a ready version answer a share of the requests to an alias of its model.

    It replaces an earlier canary of the alias, or changes its share. Any move of the alias ends the canary.
    Raises ``not_found`` (model, alias, a version of something else), ``model_not_ready``, ``invalid_field``
    (the share, the alias's own version, a version with other inputs).
    """
    locked, alias = _lock(hplm, name)
    if not 1 <= percent <= MAX_CANARY_PERCENT:
        message = f"The share must be a whole percentage from 1 to {MAX_CANARY_PERCENT}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="percent")
    target = alias_target(hplm=locked, version=version)
    if target.pk == alias.version_id:
        message = f"@{name} points to version {target.number} already: choose another one."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="version")
    if takes_pairs(locked.task, target.config) != takes_pairs(locked.task, alias.version.config):
        message = f"Version {target.number} reads other inputs than version {alias.version.number}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="version")
    if alias.canary_id != target.pk:
        alias.canary, alias.canary_started_at = target, timezone.now()
        alias.canary_counts_before = {
            str(one.number): _counts_today(locked, one) for one in (alias.version, target)
        }
    alias.canary_percent = percent
    return _save(alias, actor, verb="alias.canary", detail={"version": target.number, "percent": percent})


@transaction.atomic
def canary_promote(*, hplm: Hplm, name: str, actor: Actor) -> Alias:
    """Point the alias at its canary, which ends thereby. Raises ``not_found``, ``conflict`` (no canary)."""
    locked, alias = _lock(hplm, name)
    canary = _require_canary(alias)
    reason = f"Canary with {alias.canary_percent}% promoted"
    return alias_move(hplm=locked, name=name, version=canary, actor=actor, reason=reason)


@transaction.atomic
def canary_end(*, hplm: Hplm, name: str, actor: Actor) -> Alias:
    """End the canary: the alias's own version answers all requests again.

    Raises ``not_found``, ``conflict`` (no canary).
    """
    _, alias = _lock(hplm, name)
    detail = {"version": _require_canary(alias).number, "percent": alias.canary_percent}
    canary_clear(alias)
    return _save(alias, actor, verb="alias.canary_end", detail=detail)


def _counts_today(hplm: Hplm, version: Version) -> dict[str, float]:
    """What the version has answered since midnight UTC, without what is still buffered."""
    today = datetime.now(UTC).date()
    days = answers_by_day(hplm.tenant, hplm.name, version.number, today)
    return {name: sum(getattr(day, name) for day in days if day.day == today) for name in COUNTED}


def _lock(hplm: Hplm, name: str) -> tuple[Hplm, Alias]:
    locked = hplm_lock(hplm=hplm)
    rows = Alias.unscoped.select_for_update(of=("self",)).select_related("version", "canary", "hplm__tenant")
    alias = require_found(rows.filter(hplm=locked, name=name).first(), "alias of this model", param="alias")
    return locked, alias


def _require_canary(alias: Alias) -> Version:
    if alias.canary is None:
        raise HmiError(ErrorCode.CONFLICT, f"{alias} has no canary.", param="alias")
    return alias.canary


def _save(alias: Alias, actor: Actor, *, verb: str, detail: dict[str, Any]) -> Alias:
    """Save the canary, publish the manifest for pinned models, and notify the audit log."""
    alias.save(update_fields=CANARY_FIELDS)
    hplm = alias.hplm
    if hplm.pinned_at is not None:
        manifest_publish_on_commit()
    audit_record(verb=verb, subject=f"{hplm}{alias}", tenant=hplm.tenant, actor=actor, detail=detail)
    return alias
