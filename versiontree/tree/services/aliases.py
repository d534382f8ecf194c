"""Move and remove aliases. Promotion and rollback are moves."""

from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError, require_found
from versiontree.names import require_slug
from versiontree.tree.models import Alias, AliasMove, Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.alias_history import alias_history
from versiontree.tree.services.webhook_notifications import alias_notify
from versiontree.tree.serving_manifest import manifest_publish_on_commit

CANARY_FIELDS: Final = ("canary", "canary_percent", "canary_started_at", "canary_counts_before")
ROLLBACK_REASON: Final = "Rollback"


@transaction.atomic
def alias_move(*, hplm: Hplm, name: str, version: Version, actor: Actor, reason: str = "") -> Alias:
    """Point an alias of a model at one of its ready versions. Creates the alias if it is new.

    A canary of the alias ends. Raises ``not_found`` (deleted model, a version of something else),
    ``model_not_ready``, ``invalid_field``.
    """
    require_slug(name, param="name")
    locked = hplm_lock(hplm=hplm)
    target = alias_target(hplm=locked, version=version)
    return alias_point(hplm=locked, name=name, version=target, actor=actor, reason=reason)


@dataclass(frozen=True, slots=True)
class Rollback:
    """The alias after a rollback, and the version that it was rolled back from. ``moved`` is false if
    somebody had rolled it back already."""

    alias: Alias
    from_version: Version
    moved: bool


@transaction.atomic
def alias_roll_back(
    *, hplm: Hplm, name: str, actor: Actor, from_version: int | None = None, reason: str = ""
) -> Rollback:
    """Point an alias at the version before its current one was promoted.

    ``from_version`` is the number of the version that the caller wants to get rid of. If the alias was rolled
    back from it already, nothing moves; so two people in one incident go back once. Without it nothing moves
    if the last move was a rollback. Raises ``not_found`` (deleted model, no such alias), ``conflict`` (no
    earlier version, or the alias points elsewhere).
    """
    locked = hplm_lock(hplm=hplm)
    row = Alias.unscoped.select_related("version", "canary").filter(hplm=locked, name=name).first()
    alias = require_found(row, "alias of this model", param="alias")
    history, current = alias_history(locked, name), alias.version
    undone = history.last.from_version if history.last is not None and history.rolled_back else None
    if undone is not None and from_version in (None, undone.number) and from_version != current.number:
        return Rollback(alias, undone, moved=False)
    if from_version not in (None, current.number):
        message = f"@{name} points to version {current.number}, not to version {from_version}."
        raise HmiError(ErrorCode.CONFLICT, message, param="from_version")
    target = history.rollback_target
    if target is None:
        message = f"@{name} has no earlier version than version {current.number} to roll back to."
        raise HmiError(ErrorCode.CONFLICT, message, param="alias")
    moved = alias_point(hplm=locked, name=name, version=target, actor=actor, reason=reason or ROLLBACK_REASON)
    return Rollback(moved, current, moved=True)


def alias_target(*, hplm: Hplm, version: Version) -> Version:
    """The version, read again, if aliases of the model can point at it.

    Raises ``not_found`` (a version of something else) and ``model_not_ready``.
    """
    row = Version.unscoped.filter(pk=version.pk, hplm=hplm).first()
    target = require_found(row, "version of this model", param="version")
    if target.state != VersionState.READY:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY,
            f"{target.in_words} is {target.get_state_display().lower()}; an alias needs a ready version.",
            param="version",
        )
    return target


@transaction.atomic
def alias_remove(*, hplm: Hplm, name: str, actor: Actor, reason: str = "") -> None:
    """Remove an alias. Its history stays.

    Raises ``not_found`` (deleted model, no such alias), ``conflict`` for ``default``.
    """
    locked = hplm_lock(hplm=hplm)
    if name == DEFAULT_ALIAS:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"Requests without an alias use @{name}. Move it instead, or delete the model.",
            param="alias",
        )
    row = Alias.unscoped.select_for_update().filter(hplm=locked, name=name).first()
    alias = require_found(row, "alias of this model", param="alias")
    move = AliasMove(
        hplm=locked,
        name=name,
        from_version_id=alias.version_id,
        reason=reason[:200],
        moved_by=person(actor),
        moved_at=timezone.now(),
    )
    alias.delete()
    _record(move, actor, verb="alias.remove", detail={"reason": reason})


def hplm_lock(*, hplm: Hplm) -> Hplm:
    """Lock the model's row until the transaction ends, and return the model. ``not_found`` if it was deleted.

    To avoid deadlocks, whoever moves its aliases or deletes it takes this lock after the lock on the tenant's
    quota, and before those on its versions, jobs and aliases. Jobs that end may move its default alias.
    """
    rows = Hplm.unscoped.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    return require_found(rows.filter(pk=hplm.pk, deleted_at=None).first(), "model", param="model")


def alias_point(*, hplm: Hplm, name: str, version: Version, actor: Actor, reason: str) -> Alias:
    """Write the alias and its history, and end its canary.

    The caller has validated the version and opened the transaction.
    """
    aliases = Alias.unscoped.select_for_update(of=("self",)).select_related("version")
    alias = aliases.filter(hplm=hplm, name=name).first()
    before = alias.version_id if alias else None
    if alias is not None and before == version.pk:
        return alias
    now = timezone.now()
    detail: dict[str, object] = {"version": version.number, "reason": reason}
    if alias is None:
        alias = Alias(hplm=hplm, name=name)
    else:
        detail["version"] = change(alias.version.number, version.number)
    if alias.canary is not None:
        detail["ended_canary"] = alias.canary.number
    alias.version, alias.moved_by, alias.moved_at = version, person(actor), now
    canary_clear(alias)
    alias.save(update_fields=["version", "moved_by", "moved_at", *CANARY_FIELDS] if before else None)
    move = AliasMove(
        hplm=hplm,
        name=name,
        from_version_id=before,
        to_version=version,
        reason=reason[:200],
        moved_by=person(actor),
        moved_at=now,
    )
    _record(move, actor, verb="alias.move", detail=detail)
    return alias


def _record(move: AliasMove, actor: Actor, *, verb: str, detail: dict[str, Any]) -> None:
    """Save a move of an alias, publish the manifest for pinned models, and notify audit log and webhooks."""
    move.save()
    hplm, name = move.hplm, move.name
    if hplm.pinned_at is not None:
        manifest_publish_on_commit()
    audit_record(verb=verb, subject=f"{hplm}@{name}", tenant=hplm.tenant, actor=actor, detail=detail)
    alias_notify(hplm=hplm, name=name, before=move.from_version_id, version=move.to_version)


def canary_clear(alias: Alias) -> None:
    """Set the fields of an alias without a canary. The caller saves CANARY_FIELDS."""
    alias.canary = alias.canary_percent = alias.canary_started_at = None
    alias.canary_counts_before = {}
