"""Sending what waits for endpoints, until it is taken or the last try is over.

A worker holds an endpoint for as long as one try can take, so an endpoint is sent to by one worker at a time,
the oldest first, and a slow one delays no other. A tenant has few endpoints sent to at a time, and the tenant
that was served longest ago is next, so its slow receivers leave threads to the others. A worker that dies
between sending and writing that down leaves the delivery to be sent again: at least once.
"""

import json
import logging
import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.utils import timezone

from tenants.audit.services import audit_record
from tenants.base.advisory_lock import advisory_xact_lock
from tenants.base.errors import HmiError
from tenants.webhooks.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.posting import Resolve, WebhookResponse, by_name, post, signed_headers
from tenants.webhooks.services.endpoints import host_of, secrets_of

log = logging.getLogger(__name__)

PAUSES_S: Final = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""After each try that failed: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, as Standard Webhooks
advises. There is one try more."""
JITTER: Final = 0.2
LONGEST_WISH_S: Final = 86_400
"""A receiver's Retry-After is heard within a day."""
HELD_FOR: Final = timedelta(seconds=60)
"""Longer than a try takes, names that are slow to resolve included."""
FAILING_FOR: Final = timedelta(days=5)
"""Without any success, an endpoint is then turned off."""
KEPT: Final = timedelta(days=30)
GONE: Final = 410
ENDPOINTS_AT_ONCE: Final = 2
"""Of one tenant."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One try, which this worker makes before ``until``; ``delivery`` has its endpoint and tenant."""

    delivery: WebhookDelivery
    until: datetime


def webhooks_send(*, for_s: float, resolve: Resolve = by_name) -> int:
    """Send what is due until nothing is, or the time is over; how many tries were made."""
    tries, end = 0, time.monotonic() + for_s
    while time.monotonic() < end and (claim := delivery_claim()) is not None:
        delivery_record(claim=claim, answer=delivery_try(claim=claim, resolve=resolve))
        tries += 1
    return tries


@transaction.atomic
def delivery_claim() -> Claim | None:
    """Take an endpoint that nobody sends to, of the tenant that was served longest ago, and the delivery that
    has been due there longest. None when nothing is due, or only of tenants with ``ENDPOINTS_AT_ONCE``.
    """
    advisory_xact_lock("webhook claim")  # so that two claims do not both find a tenant's last place free
    now = timezone.now()
    due = WebhookDelivery.unscoped.filter(state=DeliveryState.WAITING, next_attempt_at__lte=now).order_by(
        "next_attempt_at", "created_at"
    )
    first_due = Subquery(due.filter(endpoint=OuterRef("pk")).values("next_attempt_at")[:1])
    free = WebhookEndpoint.unscoped.filter(
        Q(sending_until=None) | Q(sending_until__lte=now), disabled_at=None, tenant__suspended_at=None
    )
    held = WebhookEndpoint.unscoped.filter(sending_until__gt=now).order_by().values("tenant")
    busy = held.annotate(held=Count("pk")).filter(held__gte=ENDPOINTS_AT_ONCE).values("tenant")
    last = WebhookEndpoint.unscoped.filter(tenant=OuterRef("tenant"), sending_until__isnull=False)
    served_at = Subquery(last.order_by("-sending_until").values("sending_until")[:1])
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
    until = now + HELD_FOR
    WebhookEndpoint.unscoped.filter(pk=endpoint.pk).update(sending_until=until)
    WebhookDelivery.unscoped.filter(pk=delivery.pk).update(attempts=F("attempts") + 1)
    return Claim(WebhookDelivery.unscoped.select_related("endpoint", "tenant").get(pk=delivery.pk), until)


def delivery_try(*, claim: Claim, resolve: Resolve = by_name) -> WebhookResponse:
    """Sign and send it; outside of any transaction."""
    delivery, now = claim.delivery, timezone.now()
    body = json.dumps(delivery.payload, sort_keys=True, ensure_ascii=False)
    try:
        with_secrets = secrets_of(delivery.endpoint, now)
    except HmiError as error:
        return WebhookResponse(None, error.message, "", 0)
    headers = signed_headers(event_id=delivery.event_id, at=now, body=body, with_secrets=with_secrets)
    try:
        return post(delivery.endpoint.url, body=body.encode(), headers=headers, resolve=resolve)
    except Exception:  # one that cannot be sent must not hold up those behind it
        log.exception("Delivery %s could not be sent", delivery.pk)
        return WebhookResponse(None, "The request could not be made; the operator's log says why.", "", 0)


@transaction.atomic
def delivery_record(*, claim: Claim, answer: WebhookResponse) -> bool:
    """Write down what came of a try, and set the next one; false where another worker has taken it over, or
    it is gone."""
    rows = WebhookEndpoint.unscoped.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    endpoint = rows.filter(pk=claim.delivery.endpoint_id, sending_until=claim.until).first()
    delivery = WebhookDelivery.unscoped.filter(pk=claim.delivery.pk, state=DeliveryState.WAITING).first()
    if endpoint is None or delivery is None:
        return False
    now = timezone.now()
    _log_try(delivery, answer, now)
    endpoint.sending_until = now  # free, and the tenant was served just now
    if answer.ok:
        endpoint.failing_since = None
    else:
        endpoint.failing_since = endpoint.failing_since or now
        _disable_if_due(endpoint, answer, now)
    endpoint.save(
        update_fields=["sending_until", "failing_since", "disabled_at", "disabled_reason"],
    )
    return True


def deliveries_expire() -> int:
    """Delete from the log what was told a month ago; how many."""
    long_ago = timezone.now() - KEPT
    return WebhookDelivery.unscoped.filter(created_at__lt=long_ago).delete()[0]


def pause_s(attempts: int, wish_s: int | None = None) -> float | None:
    """For how long to wait after so many tries; None after the last. Not before the receiver's wish."""
    if attempts > len(PAUSES_S):
        return None
    usual = PAUSES_S[attempts - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    return max(usual, float(min(wish_s or 0, LONGEST_WISH_S)))


def _log_try(delivery: WebhookDelivery, answer: WebhookResponse, now: datetime) -> None:
    delivery.tries = [
        *delivery.tries,
        {
            "at": now.isoformat(),
            "ms": answer.ms,
            "status": answer.status,
            "error": answer.error,
            "excerpt": answer.excerpt,
        },
    ]
    pause = None if answer.ok or answer.status == GONE else pause_s(delivery.attempts, answer.retry_after)
    if pause is not None:
        delivery.next_attempt_at = now + timedelta(seconds=pause)
    else:
        delivery.state = DeliveryState.DELIVERED if answer.ok else DeliveryState.FAILED
        delivery.next_attempt_at, delivery.finished_at = None, now
    delivery.save(update_fields=["tries", "state", "next_attempt_at", "finished_at"])


def _disable_if_due(endpoint: WebhookEndpoint, answer: WebhookResponse, now: datetime) -> None:
    assert endpoint.failing_since is not None
    if answer.status == GONE:
        reason = "The receiver answered 410 (Gone), which asks to be sent nothing more."
    elif now - endpoint.failing_since >= FAILING_FOR:
        reason = f"Nothing was taken there for {FAILING_FOR.days} days. The last try: {answer.error}"
    else:
        return
    endpoint.disabled_at, endpoint.disabled_reason = now, reason[:200]
    log.warning("The webhook %s (%s) is turned off: %s", endpoint.pk, host_of(endpoint), reason)
    audit_record(
        verb="webhook.disable",
        subject=host_of(endpoint),
        tenant=endpoint.tenant,
        actor=None,
        detail={"webhook": str(endpoint.pk), "reason": endpoint.disabled_reason},
    )
