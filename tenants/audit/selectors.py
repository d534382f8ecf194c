"""Reading what was written down about who did what."""

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
class AuditWish:
    """Which events somebody wants: of an actor (a user name, the prefix of a key, or ``system``), of a kind
    (``dataset``, or exactly ``dataset.upload``), about what has these letters in its name, of these days."""

    actor: str = ""
    kind: str = ""
    words: str = ""
    since: date | None = None
    until: date | None = None


def audit_events_of(tenant: Tenant, wish: AuditWish = AuditWish()) -> QuerySet[AuditEvent]:
    """The tenant's events, the newest first, with who did them."""
    rows = AuditEvent.objects.for_tenant(tenant).filter(_which(wish))
    return rows.select_related("actor", "api_key").order_by("-pk")


def audit_kinds(tenant: Tenant) -> list[str]:
    """What there are events of: the first part of each verb, in order."""
    # A walk from one to the next by the index would not pay: there are few kinds, and the planner hashes.
    verbs = AuditEvent.objects.for_tenant(tenant).order_by().values_list("verb", flat=True).distinct()
    return sorted({verb.partition(".")[0] for verb in verbs})


def _which(wish: AuditWish) -> Q:
    which = Q()
    if wish.actor == SYSTEM:
        which &= Q(actor=None, api_key=None)
    elif wish.actor:
        people = get_user_model().objects.filter(username__iexact=wish.actor).values("pk")
        which &= Q(actor__in=people) | Q(api_key=wish.actor)
    if wish.kind:
        which &= Q(verb=wish.kind) | Q(verb__startswith=f"{wish.kind}.")
    if wish.words:
        which &= Q(subject__icontains=wish.words)
    if wish.since:
        which &= Q(at__gte=_midnight(wish.since))
    if wish.until:
        which &= Q(at__lt=_midnight(wish.until + timedelta(days=1)))
    return which


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
