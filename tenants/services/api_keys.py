"""The life of an API key."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from tenants.errors import ErrorCode, HmiError
from tenants.models import ApiKey, Scope, Tenant, User
from tenants.services.audit import Actor, audit_record
from tenants.services.names import clean_name

TOUCH_EVERY = timedelta(minutes=1)


@transaction.atomic
def api_key_create(
    *,
    tenant: Tenant,
    name: str,
    scopes: Sequence[str],
    created_by: User | None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its plaintext, which is shown this once and never stored."""
    key = ApiKey(
        tenant=tenant,
        name=clean_name(name, longest=50),
        scopes=clean_scopes(scopes),
        created_by=created_by,
        expiry_date=_clean_expiry(expires_at),
    )
    plaintext = ApiKey.unscoped.assign_key(key)
    key.save(force_insert=True)
    audit_record(
        verb="api_key.create",
        subject=key.prefix,
        tenant=tenant,
        actor=created_by,
        detail={"name": key.name, "scopes": key.scopes},
    )
    return key, plaintext


@transaction.atomic
def api_key_revoke(*, api_key: ApiKey, actor: Actor) -> bool:
    """Make a key useless for ever; true when this call did it."""
    if not ApiKey.unscoped.filter(pk=api_key.pk, revoked=False).update(revoked=True):
        return False
    api_key.revoked = True
    audit_record(verb="api_key.revoke", subject=api_key.prefix, tenant=api_key.tenant, actor=actor)
    return True


def api_key_touch(*, api_key: ApiKey) -> None:
    """Note that the key was used; at most one write a minute for each key."""
    now = timezone.now()
    if api_key.last_used_at is not None and now - api_key.last_used_at < TOUCH_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - TOUCH_EVERY)
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


def _clean_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is None:
        return None
    if timezone.is_naive(expires_at):
        raise HmiError(ErrorCode.INVALID_FIELD, "The expiry needs a time zone.", param="expires_at")
    if expires_at <= timezone.now():
        raise HmiError(ErrorCode.INVALID_FIELD, "The expiry lies in the past.", param="expires_at")
    return expires_at
