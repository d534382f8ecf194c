"""The life of an endpoint of webhooks. What is sent there: ``webhook_events``, ``webhook_sending``."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.encryption import seal, unseal
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.services.quotas import quota_lock
from tenants.webhooks.models import SUBSCRIBABLE, WebhookEndpoint
from tenants.webhooks.posting import TOTAL_S, new_secret
from tenants.webhooks.target_urls import clean_url

MOST_ENDPOINTS: Final = 20
LONGEST_OVERLAP: Final = timedelta(days=7)
USUAL_OVERLAP: Final = timedelta(days=1)
LONGEST_DESCRIPTION: Final = 200
BY_A_PERSON: Final = "Turned off by a member or a key of the tenant."
UNREADABLE: Final = (
    "The secret was sealed under another secret key of the installation; rotate the endpoint's secret."
)


@transaction.atomic
def webhook_create(
    *, tenant: Tenant, url: str, kinds: Sequence[str], description: str = "", actor: Actor
) -> tuple[WebhookEndpoint, str]:
    """A new endpoint and its secret, which is returned this once. A bad address or kind: ``invalid_field``;
    too many endpoints: ``quota_exceeded``."""
    secret = new_secret()
    endpoint = WebhookEndpoint(
        tenant=tenant,
        url=clean_url(url),
        kinds=clean_kinds(kinds),
        description=clean_description(description),
        secret=seal(secret),
        created_by=person(actor),
    )
    quota_lock(tenant=tenant)
    if WebhookEndpoint.objects.for_tenant(tenant).count() >= MOST_ENDPOINTS:
        message = f"A tenant has at most {MOST_ENDPOINTS} webhooks. Delete one that is not needed any more."
        raise HmiError(ErrorCode.QUOTA_EXCEEDED, message)
    endpoint.save(force_insert=True)
    _record("webhook.create", endpoint, actor, {"kinds": endpoint.kinds})
    return endpoint, secret


@transaction.atomic
def webhook_change(
    *,
    endpoint: WebhookEndpoint,
    actor: Actor,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    description: str | None = None,
    enabled: bool | None = None,
) -> WebhookEndpoint:
    """Change what is given. Turned on again, an endpoint gets what waits for it, and has its days of failure
    forgotten; what happened while it was off is not told."""
    found = webhook_locked(endpoint)
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
            "disabled_reason": "" if enabled else BY_A_PERSON,
            "failing_since": None,
        }
    for name, value in changes.items():
        setattr(found, name, value)
    if changes:
        found.save(update_fields=list(changes))
        _record("webhook.change", found, actor, {"changed": sorted(changes.keys() - {"failing_since"})})
    return found


@transaction.atomic
def webhook_rotate(
    *, endpoint: WebhookEndpoint, overlap: timedelta, actor: Actor
) -> tuple[WebhookEndpoint, str]:
    """Another secret, returned this once. Until the overlap is over the one before signs as well."""
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        message = f"The overlap is between nothing and {LONGEST_OVERLAP.days} days."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="overlap_s")
    found, secret = webhook_locked(endpoint), new_secret()
    found.previous_secret = found.secret if overlap else ""
    found.previous_until = timezone.now() + overlap if overlap else None
    found.secret = seal(secret)
    found.save(update_fields=["secret", "previous_secret", "previous_until"])
    _record("webhook.rotate", found, actor, {"overlap_s": int(overlap.total_seconds())})
    return found, secret


@transaction.atomic
def webhook_delete(*, endpoint: WebhookEndpoint, actor: Actor) -> None:
    """Delete it, with the log of what was sent there and what waits.

    Raises ``conflict`` while a request is on its way there, which counts as one of its tenant's.
    """
    found = webhook_locked(endpoint)
    if found.sending_until is not None and found.sending_until > timezone.now():
        message = "An event is being sent there. Delete it in a moment; turn it off first if more waits."
        raise HmiError(ErrorCode.CONFLICT, message, param="endpoint_id", retry_after=int(TOTAL_S))
    _record("webhook.delete", found, actor, {})
    found.delete()


def webhook_locked(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """The endpoint as it is now, its row locked; ``not_found`` where it is gone."""
    rows = WebhookEndpoint.objects.for_tenant(endpoint.tenant).select_related("tenant")
    found = rows.select_for_update(of=("self",)).filter(pk=endpoint.pk).first()
    if found is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such webhook.", param="endpoint_id")
    return found


def secrets_of(endpoint: WebhookEndpoint, at: datetime) -> list[str]:
    """What signs at this time, the newest first. Under a lost key of the installation: ``forbidden``."""
    stored = [endpoint.secret]
    if endpoint.previous_until is not None and at < endpoint.previous_until:
        stored.append(endpoint.previous_secret)
    return [unseal(each, lost=UNREADABLE) for each in stored]


def clean_kinds(kinds: Sequence[str]) -> list[str]:
    """The kinds of events, each once, in the order of the catalogue."""
    if not kinds:
        raise HmiError(ErrorCode.MISSING_FIELD, "Choose at least one kind of event.", param="kinds")
    if isinstance(kinds, str) or any(kind not in SUBSCRIBABLE for kind in kinds):
        message = f"Kinds are a list out of {', '.join(SUBSCRIBABLE)}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="kinds")
    return [kind.value for kind in SUBSCRIBABLE if kind.value in kinds]


def clean_description(description: str) -> str:
    """A line of text, or ``invalid_field``."""
    text = description.strip()
    if len(text) > LONGEST_DESCRIPTION or not text.isprintable():
        message = f"A description is one line of at most {LONGEST_DESCRIPTION} characters."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="description")
    return text


def host_of(endpoint: WebhookEndpoint) -> str:
    """What may stand in logs: the rest of an address is often as good as a password."""
    return urlsplit(endpoint.url).hostname or ""


def _record(verb: str, endpoint: WebhookEndpoint, actor: Actor, detail: dict[str, Any]) -> None:
    audit_record(
        verb=verb,
        subject=host_of(endpoint),
        tenant=endpoint.tenant,
        actor=actor,
        detail={"webhook": str(endpoint.pk), **detail},
    )
