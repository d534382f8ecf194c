"""API keys: create, rotate, revoke."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from tenants.accounts.models import ApiKey, Scope, Tenant, User
from tenants.accounts.models.api_key import KEY_PATTERN, KEY_RULE
from tenants.accounts.selectors import api_keys_active
from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import tenant_scope
from tenants.usage.services.quotas import quota_check, quota_lock

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
    """Create a key; returns it and its plaintext, which cannot be read again.

    The key's rate limits apply in addition to the tenant's. Raises ``quota_exceeded`` if the tenant has too
    many active keys.
    """
    key = ApiKey(
        tenant=tenant,
        name=clean_name(name, max_length=50),
        scopes=clean_scopes(scopes),
        created_by=created_by,
        expiry_date=_clean_expiry(expires_at),
        requests_per_minute=_clean_rate(requests_per_minute, "requests_per_minute"),
        tokens_per_minute=_clean_rate(tokens_per_minute, "tokens_per_minute"),
    )
    quota_lock(tenant=tenant)
    plaintext = _save(key)
    audit_record(
        verb="api_key.create",
        subject=key.prefix,
        tenant=tenant,
        actor=created_by,
        detail={"name": key.name, "scopes": key.scopes},
    )
    return key, plaintext


@transaction.atomic
def api_key_import(
    *, tenant: Tenant, name: str, plaintext: str, scopes: Sequence[str], created_by: User | None
) -> ApiKey:
    """Create a key whose plaintext the caller has chosen. Raises ``invalid_field`` if it has another form
    than generated keys, ``conflict`` if there is a key with its prefix, and what ``api_key_create`` raises.
    """
    if not KEY_PATTERN.fullmatch(plaintext):
        raise HmiError(ErrorCode.INVALID_FIELD, KEY_RULE, param="key")
    key = ApiKey(
        tenant=tenant,
        name=clean_name(name, max_length=50),
        scopes=clean_scopes(scopes),
        created_by=created_by,
    )
    quota_lock(tenant=tenant)
    quota_check(tenant=tenant, what="API keys", having=api_keys_active(tenant).count())
    ApiKey.unscoped.assign_plaintext(key, plaintext)
    if ApiKey.unscoped.filter(pk=key.pk).exists():
        message = f"There is already a key with the prefix {key.prefix}."
        raise HmiError(ErrorCode.CONFLICT, message, param="key")
    key.save(force_insert=True)
    detail = {"name": key.name, "scopes": key.scopes}
    audit_record(verb="api_key.create", subject=key.prefix, tenant=tenant, actor=created_by, detail=detail)
    return key


@transaction.atomic
def api_key_rotate(*, api_key: ApiKey, overlap: timedelta, actor: User | None) -> tuple[ApiKey, str]:
    """Create a successor with the same name, scopes, limits and lifetime; returns it and its plaintext.

    The old key works until the ``overlap`` ends or it expires. Without an overlap it is revoked. Raises
    ``conflict`` for a key that is revoked, expired or was rotated before.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        message = f"The overlap must be between 0 and {MAX_OVERLAP.days} days."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="overlap_s")
    quota_lock(tenant=api_key.tenant)
    old = ApiKey.objects.for_tenant(api_key.tenant).select_for_update().get(pk=api_key.pk)
    _check_can_be_rotated(old)
    now = timezone.now()
    lifetime = old.expiry_date - old.created if old.expiry_date else None
    if overlap:
        expires_at = min(old.expiry_date or now + overlap, now + overlap)
        ApiKey.unscoped.filter(pk=old.pk).update(expiry_date=expires_at)
    else:
        api_key_revoke(api_key=old, actor=actor)
    successor = ApiKey(
        tenant=api_key.tenant,
        name=old.name,
        scopes=old.scopes,
        created_by=actor,
        expiry_date=now + lifetime if lifetime else None,
        replaces=old,
        requests_per_minute=old.requests_per_minute,
        tokens_per_minute=old.tokens_per_minute,
    )
    plaintext = _save(successor)
    detail = {"successor": successor.prefix, "overlap_s": int(overlap.total_seconds())}
    audit_record(verb="api_key.rotate", subject=old.prefix, tenant=api_key.tenant, actor=actor, detail=detail)
    return successor, plaintext


@transaction.atomic
def api_key_revoke(*, api_key: ApiKey, actor: Actor) -> bool:
    """Revoke a key. Returns whether this call revoked it."""
    now = timezone.now()
    if not ApiKey.unscoped.filter(pk=api_key.pk, revoked=False).update(revoked=True, revoked_at=now):
        return False
    api_key.revoked, api_key.revoked_at = True, now
    audit_record(verb="api_key.revoke", subject=api_key.prefix, tenant=api_key.tenant, actor=actor)
    return True


def api_key_touch(*, api_key: ApiKey) -> None:
    """Record that the key was used, at most once a minute."""
    now = timezone.now()
    if api_key.last_used_at is not None and now - api_key.last_used_at < TOUCH_INTERVAL:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - TOUCH_INTERVAL)
    with tenant_scope(api_key.tenant):
        ApiKey.unscoped.filter(stale, pk=api_key.pk).update(last_used_at=now)


def clean_scopes(scopes: Sequence[str]) -> list[str]:
    """The scopes without duplicates, in the order of ``Scope``; or ``missing_field`` / ``invalid_field``."""
    if not scopes:
        raise HmiError(ErrorCode.MISSING_FIELD, "A key needs at least one scope.", param="scopes")
    unknown = [scope for scope in scopes if scope not in Scope.values]
    if isinstance(scopes, str) or unknown:
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"Scopes must be a list of: {', '.join(Scope.values)}.", param="scopes"
        )
    return [scope for scope in Scope.values if scope in scopes]


def _save(key: ApiKey) -> str:
    """Check the quota, save the key, and return its plaintext. The caller holds ``quota_lock``."""
    quota_check(tenant=key.tenant, what="API keys", having=api_keys_active(key.tenant).count())
    plaintext = ApiKey.unscoped.assign_key(key)
    key.save(force_insert=True)
    return plaintext


def _check_can_be_rotated(key: ApiKey) -> None:
    if key.revoked or key.has_expired:
        state = "revoked" if key.revoked else "expired"
        message = f"The key {key.prefix} is {state}. Create a new one instead."
        raise HmiError(ErrorCode.CONFLICT, message, param="prefix")
    successor = ApiKey.objects.for_tenant(key.tenant).filter(replaces=key).first()
    if successor is not None:
        message = f"The key {key.prefix} was already rotated. Rotate {successor.prefix} instead."
        raise HmiError(ErrorCode.CONFLICT, message, param="prefix")


def _clean_rate(rate: int | None, param: str) -> int | None:
    if rate is not None and not 0 < rate <= MAX_PER_MINUTE:
        message = f"A limit must be a number from 1 to {MAX_PER_MINUTE:,}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param=param)
    return rate


def _clean_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is None:
        return None
    if timezone.is_naive(expires_at):
        raise HmiError(ErrorCode.INVALID_FIELD, "The expiry needs a time zone.", param="expires_at")
    if expires_at <= timezone.now():
        raise HmiError(ErrorCode.INVALID_FIELD, "The expiry must be in the future.", param="expires_at")
    return expires_at
