"""Queries for the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from tenants.audit.models import AuditEvent

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

SYSTEM: Final = "system"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filters audit events.

    ``actor`` is a user name, a key prefix, or ``system``; ``kind`` is a prefix such as ``dataset`` or a verb
    such as ``dataset.upload``; ``words`` occur in the subject; ``since`` and ``until`` are days (UTC).
    """

    actor: str = ""
    kind: str = ""
    words: str = ""
    since: date | None = None
    until: date | None = None


def audit_events_of(tenant: Tenant, filters: AuditFilter = AuditFilter()) -> QuerySet[AuditEvent]:
    """The tenant's events with their actors, newest first."""
    rows = AuditEvent.objects.for_tenant(tenant).filter(_condition(filters))
    return rows.select_related("actor", "api_key").order_by("-pk")


def audit_kinds(tenant: Tenant) -> list[str]:
    """Return the first parts of all verbs in the log, sorted."""
    # A recursive query (loose index scan) is not faster here.
    verbs = AuditEvent.objects.for_tenant(tenant).order_by().values_list("verb", flat=True).distinct()
    return sorted({verb.partition(".")[0] for verb in verbs})


def _condition(filters: AuditFilter) -> Q:
    condition = Q()
    if filters.actor == SYSTEM:
        condition &= Q(actor=None, api_key=None)
    elif filters.actor:
        people = get_user_model().objects.filter(username__iexact=filters.actor).values("pk")
        condition &= Q(actor__in=people) | Q(api_key=filters.actor)
    if filters.kind:
        condition &= Q(verb=filters.kind) | Q(verb__startswith=f"{filters.kind}.")
    if filters.words:
        condition &= Q(subject__icontains=filters.words)
    if filters.since:
        condition &= Q(at__gte=_midnight(filters.since))
    if filters.until:
        condition &= Q(at__lt=_midnight(filters.until + timedelta(days=1)))
    return condition


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
