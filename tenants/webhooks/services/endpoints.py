"""Webhook endpoints: create, update, rotate the secret, delete. See ``events`` and ``delivery``."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.encryption import decrypt, encrypt
from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.usage.services.quotas import quota_lock
from tenants.webhooks.http_client import REQUEST_TIMEOUT_S, new_secret
from tenants.webhooks.models import SUBSCRIBABLE, WebhookEndpoint
from tenants.webhooks.target_urls import clean_url

MAX_ENDPOINTS: Final = 20
MAX_OVERLAP: Final = timedelta(days=7)
DEFAULT_OVERLAP: Final = timedelta(days=1)
MAX_DESCRIPTION_LENGTH: Final = 200
DISABLED_BY_USER: Final = "Disabled by a member or an API key of the tenant."
UNREADABLE_MESSAGE: Final = (
    "The secret was encrypted with another secret key of the installation. Rotate the endpoint's secret."
)


@transaction.atomic
def webhook_create(
    *, tenant: Tenant, url: str, kinds: Sequence[str], description: str = "", actor: Actor
) -> tuple[WebhookEndpoint, str]:
    """Create an endpoint; returns it and its secret, which cannot be read again.

    Raises ``invalid_field`` for the address or a kind, and ``quota_exceeded`` beyond ``MAX_ENDPOINTS``.
    """
    secret = new_secret()
    endpoint = WebhookEndpoint(
        tenant=tenant,
        url=clean_url(url),
        kinds=clean_kinds(kinds),
        description=clean_description(description),
        secret=encrypt(secret),
        created_by=person(actor),
    )
    quota_lock(tenant=tenant)
    if WebhookEndpoint.objects.for_tenant(tenant).count() >= MAX_ENDPOINTS:
        message = f"A tenant has at most {MAX_ENDPOINTS} webhooks. Delete one that is no longer needed."
        raise HmiError(ErrorCode.QUOTA_EXCEEDED, message)
    endpoint.save(force_insert=True)
    webhook_audit("webhook.create", endpoint, actor, {"kinds": endpoint.kinds})
    return endpoint, secret


@transaction.atomic
def webhook_update(
    *,
    endpoint: WebhookEndpoint,
    actor: Actor,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    description: str | None = None,
    enabled: bool | None = None,
) -> WebhookEndpoint:
    """Change the given fields. An endpoint that is enabled again gets its waiting deliveries.

    Events that happened while it was disabled are not sent.
    """
    found = webhook_lock(endpoint)
    changes: dict[str, Any] = {}
    if url is not None:
        changes["url"] = clean_url(url)
    if kinds is not None:
        changes["kinds"] = clean_kinds(kinds)
    if description is not None:
        changes["description"] = clean_description(description)
    if enabled is not None and enabled != found.is_enabled:
        changes |= {
            "disabled_at": None if enabled else timezone.now(),
            "disabled_reason": "" if enabled else DISABLED_BY_USER,
            "failing_since": None,
        }
    for name, value in changes.items():
        setattr(found, name, value)
    if changes:
        found.save(update_fields=list(changes))
        webhook_audit("webhook.change", found, actor, {"changed": sorted(changes.keys() - {"failing_since"})})
    return found


@transaction.atomic
def webhook_rotate(
    *, endpoint: WebhookEndpoint, overlap: timedelta, actor: Actor
) -> tuple[WebhookEndpoint, str]:
    """Replace the secret; returns the new one, which cannot be read again. Both sign during ``overlap``."""
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        message = f"The overlap must be between 0 and {MAX_OVERLAP.days} days."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="overlap_s")
    found, secret = webhook_lock(endpoint), new_secret()
    found.previous_secret = found.secret if overlap else ""
    found.previous_until = timezone.now() + overlap if overlap else None
    found.secret = encrypt(secret)
    found.save(update_fields=["secret", "previous_secret", "previous_until"])
    webhook_audit("webhook.rotate", found, actor, {"overlap_s": int(overlap.total_seconds())})
    return found, secret


@transaction.atomic
def webhook_delete(*, endpoint: WebhookEndpoint, actor: Actor) -> None:
    """Delete an endpoint and its deliveries.

    Raises ``conflict`` during an attempt, since its lease counts towards the tenant's limit.
    """
    found = webhook_lock(endpoint)
    if found.lease_expires_at is not None and found.lease_expires_at > timezone.now():
        message = (
            "An event is being sent there. Try again in a moment; disable it first if more deliveries wait."
        )
        raise HmiError(ErrorCode.CONFLICT, message, param="endpoint_id", retry_after=int(REQUEST_TIMEOUT_S))
    webhook_audit("webhook.delete", found, actor, {})
    found.delete()


def webhook_lock(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """The current row of the endpoint, locked. ``not_found`` if it was deleted."""
    rows = WebhookEndpoint.objects.for_tenant(endpoint.tenant).select_related("tenant")
    row = rows.select_for_update(of=("self",)).filter(pk=endpoint.pk).first()
    return require_found(row, "webhook", param="endpoint_id")


def signing_secrets(endpoint: WebhookEndpoint, at: datetime) -> list[str]:
    """The secrets that sign at this time, newest first. ``forbidden`` if they cannot be decrypted."""
    stored = [endpoint.secret]
    if endpoint.previous_until is not None and at < endpoint.previous_until:
        stored.append(endpoint.previous_secret)
    return [decrypt(each, error_message=UNREADABLE_MESSAGE) for each in stored]


def clean_kinds(kinds: Sequence[str]) -> list[str]:
    """The kinds of events without duplicates, in the order of ``EventKind``; or ``invalid_field``."""
    if not kinds:
        raise HmiError(ErrorCode.MISSING_FIELD, "Choose at least one kind of event.", param="kinds")
    if isinstance(kinds, str) or any(kind not in SUBSCRIBABLE for kind in kinds):
        message = f"Kinds must be a list of: {', '.join(SUBSCRIBABLE)}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="kinds")
    return [kind.value for kind in SUBSCRIBABLE if kind.value in kinds]


def clean_description(description: str) -> str:
    """One line of text, or ``invalid_field``."""
    text = description.strip()
    if len(text) > MAX_DESCRIPTION_LENGTH or not text.isprintable():
        message = f"A description is one line of at most {MAX_DESCRIPTION_LENGTH} characters."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="description")
    return text


def webhook_audit(verb: str, endpoint: WebhookEndpoint, actor: Actor, detail: dict[str, Any]) -> None:
    """Record an audit event of an endpoint."""
    audit_record(
        verb=verb,
        subject=endpoint.host,
        tenant=endpoint.tenant,
        actor=actor,
        detail={"webhook": str(endpoint.pk), **detail},
    )
