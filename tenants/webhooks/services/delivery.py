"""Delivery of events to endpoints, with retries. Deliveries arrive at least once.

A worker leases an endpoint for one attempt. So one worker at a time sends to an endpoint, oldest delivery
first, and a slow endpoint delays no other. Scheduling is fair: a tenant has at most
``MAX_CONCURRENT_ENDPOINTS`` leased endpoints, and the tenant that was served longest ago is next. If a worker
dies after it sent a request and before it recorded that, the delivery is sent again.
"""

import json
import logging
import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from django.db import transaction
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.utils import timezone

from tenants.base.advisory_lock import advisory_xact_lock
from tenants.base.errors import HmiError
from tenants.webhooks.http_client import Resolve, WebhookResponse, post, resolve_host, signed_headers
from tenants.webhooks.models import DeliveryState, EventKind, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.endpoints import signing_secrets, webhook_audit

log = logging.getLogger(__name__)

RETRY_DELAYS_S: Final = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Delays after failed attempts: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, as Standard Webhooks
recommends. There is one attempt more than delays."""
JITTER: Final = 0.2
MAX_RETRY_AFTER_S: Final = 86_400
"""A longer Retry-After of a receiver counts as this."""
LEASE: Final = timedelta(seconds=60)
"""Longer than an attempt takes, including slow name resolution."""
DISABLE_AFTER: Final = timedelta(days=5)
"""An endpoint that fails for this long is disabled."""
DELIVERY_RETENTION: Final = timedelta(days=30)
MAX_CONCURRENT_ENDPOINTS: Final = 2
"""Per tenant."""


@dataclass(frozen=True, slots=True)
class DeliveryClaim:
    """A delivery that this worker attempts. The lease of its endpoint ends at ``lease_expires_at``."""

    delivery: WebhookDelivery
    lease_expires_at: datetime


def webhooks_send(*, max_seconds: float, resolve: Resolve = resolve_host) -> int:
    """Send due deliveries until there are none or the time is over; returns the number of attempts."""
    attempts, end = 0, time.monotonic() + max_seconds
    while time.monotonic() < end and (claim := delivery_claim()) is not None:
        delivery_record(claim=claim, response=delivery_attempt(claim=claim, resolve=resolve))
        attempts += 1
    return attempts


@transaction.atomic
def delivery_claim() -> DeliveryClaim | None:
    """Lease a free endpoint of the tenant that was served longest ago, and claim its oldest due delivery.

    None if nothing is due, or only for tenants with ``MAX_CONCURRENT_ENDPOINTS`` leased endpoints.
    """
    advisory_xact_lock("webhook claim")  # two claims must not both take a tenant's last free lease
    now = timezone.now()
    due = WebhookDelivery.unscoped.filter(state=DeliveryState.WAITING, next_attempt_at__lte=now).order_by(
        "next_attempt_at", "created_at"
    )
    first_due = Subquery(due.filter(endpoint=OuterRef("pk")).values("next_attempt_at")[:1])
    free = WebhookEndpoint.unscoped.filter(
        Q(lease_expires_at=None) | Q(lease_expires_at__lte=now), disabled_at=None, tenant__suspended_at=None
    )
    held = WebhookEndpoint.unscoped.filter(lease_expires_at__gt=now).order_by().values("tenant")
    busy = held.annotate(held=Count("pk")).filter(held__gte=MAX_CONCURRENT_ENDPOINTS).values("tenant")
    last = WebhookEndpoint.unscoped.filter(tenant=OuterRef("tenant"), lease_expires_at__isnull=False)
    served_at = Subquery(last.order_by("-lease_expires_at").values("lease_expires_at")[:1])
    endpoint = (
        free.exclude(tenant__in=busy)
        .annotate(due_at=first_due, served_at=served_at)
        .filter(due_at__isnull=False)
        .order_by(F("served_at").asc(nulls_first=True), "due_at")
        .select_for_update(skip_locked=True, no_key=True, of=("self",))
        .first()
    )
    delivery = due.filter(endpoint=endpoint).first() if endpoint else None
    if endpoint is None or delivery is None:
        return None
    lease_expires_at = now + LEASE
    WebhookEndpoint.unscoped.filter(pk=endpoint.pk).update(lease_expires_at=lease_expires_at)
    WebhookDelivery.unscoped.filter(pk=delivery.pk).update(attempts=F("attempts") + 1)
    return DeliveryClaim(
        WebhookDelivery.unscoped.select_related("endpoint", "tenant").get(pk=delivery.pk), lease_expires_at
    )


def delivery_attempt(*, claim: DeliveryClaim, resolve: Resolve = resolve_host) -> WebhookResponse:
    """Sign and send a delivery. Must not be called in a transaction."""
    delivery, now = claim.delivery, timezone.now()
    body = json.dumps(delivery.payload, sort_keys=True, ensure_ascii=False)
    try:
        with_secrets = signing_secrets(delivery.endpoint, now)
    except HmiError as error:
        return WebhookResponse(None, error.message, "", 0)
    headers = signed_headers(event_id=delivery.event_id, at=now, body=body, with_secrets=with_secrets)
    try:
        return post(delivery.endpoint.url, body=body.encode(), headers=headers, resolve=resolve)
    except Exception:  # it must not block the deliveries behind it
        log.exception("Sending webhook delivery %s failed", delivery.pk)
        return WebhookResponse(None, "The request could not be sent. The server log has the details.", "", 0)


@transaction.atomic
def delivery_record(*, claim: DeliveryClaim, response: WebhookResponse) -> bool:
    """Record an attempt and schedule the next one. False if the lease was lost or the delivery deleted."""
    rows = WebhookEndpoint.unscoped.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    endpoint = rows.filter(pk=claim.delivery.endpoint_id, lease_expires_at=claim.lease_expires_at).first()
    delivery = WebhookDelivery.unscoped.filter(pk=claim.delivery.pk, state=DeliveryState.WAITING).first()
    if endpoint is None or delivery is None:
        return False
    now = timezone.now()
    _record_attempt(delivery, response, now)
    endpoint.lease_expires_at = now  # the lease ends, and the tenant was served now
    if response.ok:
        endpoint.failing_since = None
    elif delivery.kind != EventKind.TEST:  # a test says nothing of the events that programs rely on
        endpoint.failing_since = endpoint.failing_since or now
        _disable_if_due(endpoint, response, now)
    endpoint.save(update_fields=["lease_expires_at", "failing_since", "disabled_at", "disabled_reason"])
    return True


def deliveries_expire() -> int:
    """Delete deliveries older than ``DELIVERY_RETENTION``; returns how many."""
    limit = timezone.now() - DELIVERY_RETENTION
    return WebhookDelivery.unscoped.filter(created_at__lt=limit).delete()[0]


def retry_delay_s(attempts: int, retry_after_s: int | None = None) -> float | None:
    """Seconds until the next attempt, at least the receiver's Retry-After. None after the last attempt."""
    if attempts > len(RETRY_DELAYS_S):
        return None
    delay = RETRY_DELAYS_S[attempts - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    return max(delay, float(min(retry_after_s or 0, MAX_RETRY_AFTER_S)))


def _record_attempt(delivery: WebhookDelivery, response: WebhookResponse, now: datetime) -> None:
    delivery.attempt_log = [
        *delivery.attempt_log,
        {
            "at": now.isoformat(),
            "ms": response.ms,
            "status": response.status,
            "error": response.error,
            "excerpt": response.excerpt,
        },
    ]
    final = response.ok or response.status == HTTPStatus.GONE
    delay_s = None if final else retry_delay_s(delivery.attempts, response.retry_after)
    if delay_s is not None:
        delivery.next_attempt_at = now + timedelta(seconds=delay_s)
    else:
        delivery.state = DeliveryState.DELIVERED if response.ok else DeliveryState.FAILED
        delivery.next_attempt_at, delivery.finished_at = None, now
    delivery.save(update_fields=["attempt_log", "state", "next_attempt_at", "finished_at"])


def _disable_if_due(endpoint: WebhookEndpoint, response: WebhookResponse, now: datetime) -> None:
    assert endpoint.failing_since is not None
    if response.status == HTTPStatus.GONE:
        reason = "The receiver responded with 410 (Gone)."
    elif now - endpoint.failing_since >= DISABLE_AFTER:
        reason = f"All deliveries failed for {DISABLE_AFTER.days} days. The last error: {response.error}"
    else:
        return
    endpoint.disabled_at, endpoint.disabled_reason = now, reason[:200]
    log.warning("Webhook %s (%s) was disabled: %s", endpoint.pk, endpoint.host, reason)
    webhook_audit("webhook.disable", endpoint, None, {"reason": endpoint.disabled_reason})
