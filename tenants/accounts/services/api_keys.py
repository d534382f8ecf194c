"""The life of an API key."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from tenants.accounts.models import ApiKey, Scope, Tenant, User
from tenants.accounts.selectors import api_keys_active
from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import tenant_scope
from tenants.usage.services.quotas import quota_check_api_keys, quota_lock

TOUCH_INTERVAL = timedelta(minutes=1)
MAX_OVERLAP = timedelta(days=7)
MAX_PER_MINUTE = 2_000_000_000


@transaction.atomic
def api_key_create(
    *,
    tenant: Tenant,
    name: str,
    scopes: Sequence[str],
    created_by: User | None,
    expires_at: datetime | None = None,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its plaintext, which is shown this once and never stored. Too many that work:
    ``quota_exceeded``. It may have limits of its own, within those of the tenant."""
    key = ApiKey(
        tenant=tenant,
        name=clean_name(name, longest=50),
        scopes=clean_scopes(scopes),
        created_by=created_by,
        expiry_date=_clean_expiry(expires_at),
        requests_per_minute=_clean_rate(requests_per_minute, "requests_per_minute"),
        tokens_per_minute=_clean_rate(tokens_per_minute, "tokens_per_minute"),
    )
    quota_lock(tenant=tenant)
    plaintext = _make(key)
    audit_record(
        verb="api_key.create",
        subject=key.prefix,
        tenant=tenant,
        actor=created_by,
        detail={"name": key.name, "scopes": key.scopes},
    )
    return key, plaintext


@transaction.atomic
def api_key_rotate(*, api_key: ApiKey, overlap: timedelta, actor: User | None) -> tuple[ApiKey, str]:
    """A successor with the same name, scopes, limits and length of life, and its plaintext. The old key goes
    on until the overlap is over, or until it would have expired anyway; without an overlap it is revoked.

    A key that does not work, or has a successor: ``conflict``.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        message = f"The overlap is between nothing and {MAX_OVERLAP.days} days."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="overlap_s")
    quota_lock(tenant=api_key.tenant)
    old = ApiKey.objects.for_tenant(api_key.tenant).select_for_update().get(pk=api_key.pk)
    _check_can_be_replaced(old)
    now = timezone.now()
    life = old.expiry_date - old.created if old.expiry_date else None
    if overlap:
        ends = min(old.expiry_date or now + overlap, now + overlap)
        ApiKey.unscoped.filter(pk=old.pk).update(expiry_date=ends)
    else:
        api_key_revoke(api_key=old, actor=actor)
    successor = ApiKey(
        tenant=api_key.tenant,
        name=old.name,
        scopes=old.scopes,
        created_by=actor,
        expiry_date=now + life if life else None,
        replaces=old,
        requests_per_minute=old.requests_per_minute,
        tokens_per_minute=old.tokens_per_minute,
    )
    plaintext = _make(successor)
    detail = {"successor": successor.prefix, "overlap_s": int(overlap.total_seconds())}
    audit_record(verb="api_key.rotate", subject=old.prefix, tenant=api_key.tenant, actor=actor, detail=detail)
    return successor, plaintext


@transaction.atomic
def api_key_revoke(*, api_key: ApiKey, actor: Actor) -> bool:
    """Make a key useless for ever; true when this call did it."""
    now = timezone.now()
    if not ApiKey.unscoped.filter(pk=api_key.pk, revoked=False).update(revoked=True, revoked_at=now):
        return False
    api_key.revoked, api_key.revoked_at = True, now
    audit_record(verb="api_key.revoke", subject=api_key.prefix, tenant=api_key.tenant, actor=actor)
    return True


def api_key_touch(*, api_key: ApiKey) -> None:
    """Note that the key was used; at most one write a minute for each key."""
    now = timezone.now()
    if api_key.last_used_at is not None and now - api_key.last_used_at < TOUCH_INTERVAL:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - TOUCH_INTERVAL)
    with tenant_scope(api_key.tenant):
        ApiKey.unscoped.filter(stale, pk=api_key.pk).update(last_used_at=now)


def clean_scopes(scopes: Sequence[str]) -> list[str]:
    """The scopes, each once, in the order of the enum; ``missing_field`` / ``invalid_field``."""
    if not scopes:
        raise HmiError(ErrorCode.MISSING_FIELD, "A key needs at least one scope.", param="scopes")
    unknown = [scope for scope in scopes if scope not in Scope.values]
    if isinstance(scopes, str) or unknown:
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"Scopes are a list out of {', '.join(Scope.values)}.", param="scopes"
        )
    return [scope for scope in Scope.values if scope in scopes]


def _make(key: ApiKey) -> str:
    """Store a key, if there is room for one more; its plaintext. The quota's row is locked."""
    quota_check_api_keys(tenant=key.tenant, having=api_keys_active(key.tenant).count())
    plaintext = ApiKey.unscoped.assign_key(key)
    key.save(force_insert=True)
    return plaintext


def _check_can_be_replaced(key: ApiKey) -> None:
    if key.revoked or key.has_expired:
        word = "revoked" if key.revoked else "expired"
        message = f"The key {key.prefix} is {word}; make a new one instead."
        raise HmiError(ErrorCode.CONFLICT, message, param="prefix")
    successor = ApiKey.objects.for_tenant(key.tenant).filter(replaces=key).first()
    if successor is not None:
        message = f"The key {key.prefix} was rotated already: {successor.prefix} follows it. Rotate that one."
        raise HmiError(ErrorCode.CONFLICT, message, param="prefix")


def _clean_rate(rate: int | None, param: str) -> int | None:
    if rate is not None and not 0 < rate <= MAX_PER_MINUTE:
        message = f"A limit is a number from 1 to {MAX_PER_MINUTE:,}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param=param)
    return rate


def _clean_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is None:
        return None
    if timezone.is_naive(expires_at):
        raise HmiError(ErrorCode.INVALID_FIELD, "The expiry needs a time zone.", param="expires_at")
    if expires_at <= timezone.now():
        raise HmiError(ErrorCode.INVALID_FIELD, "The expiry lies in the past.", param="expires_at")
    return expires_at
