"""Answers to requests with an idempotency key, kept for a day."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import IdempotentResponse, Tenant
from tenants.audit.services import Actor
from tenants.base.advisory_lock import advisory_lock
from tenants.base.encryption import seal, unseal

KEPT_FOR: Final = timedelta(days=1)
MOST_BYTES_EACH: Final = 256 * 1024
MOST_OF_A_TENANT: Final = 10_000
"""So many of the newest; those before them make room."""
LOST: Final = "What was answered to this key cannot be read under the new secret key: send another."


class InFlight(Exception):
    """A request with this key has no answer yet."""


class OtherBody(Exception):
    """The key was used for another request."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer: its status, the headers that belong to it, and what its body says as JSON."""

    status: int
    headers: dict[str, str]
    data: Any


@dataclass(frozen=True, slots=True)
class Turn:
    """The right to answer a request with a key: nobody else does meanwhile. ``kept`` is what was answered
    before, if it was."""

    place: str
    tenant: Tenant | None
    body: str
    kept: StoredResponse | None

    def keep(self, told: StoredResponse) -> None:
        """Have the same request answered so for a day, unless that is too much to keep."""
        written = json.dumps({"headers": told.headers, "data": told.data})
        if len(written) <= MOST_BYTES_EACH:
            answer_keep(turn=self, status=told.status, answer=seal(written))


@contextmanager
def answering_once(*, tenant: Tenant | None, actor: Actor, where: str, key: str, body: str) -> Iterator[Turn]:
    """In here this process, and no other, answers what ``actor`` asks at ``where`` with the key. ``body``
    stands for what is asked. Raises InFlight and OtherBody.

    Who is killed over it leaves the way free (``advisory_lock``): then nobody knows what was done, and the
    next request is as good as the first.
    """
    place = _place(tenant, actor, where, key)
    with advisory_lock(f"answer {place}") as ours:
        if not ours:
            raise InFlight
        row = IdempotentResponse.unscoped.filter(
            place=place, created_at__gt=timezone.now() - KEPT_FOR
        ).first()
        if row is not None and row.body != body:
            raise OtherBody
        yield Turn(place, tenant, body, _stored_response(row) if row else None)


@transaction.atomic
def answer_keep(*, turn: Turn, status: int, answer: str) -> None:
    """Write an answer down, in the place of one that is too old to count."""
    IdempotentResponse.unscoped.filter(place=turn.place).delete()
    row = IdempotentResponse(
        place=turn.place, tenant=turn.tenant, body=turn.body, status=status, answer=answer
    )
    row.save(force_insert=True)
    own = IdempotentResponse.unscoped.filter(tenant=turn.tenant).order_by("-created_at")
    own.filter(place__in=list(own.values_list("place", flat=True)[MOST_OF_A_TENANT:])).delete()


def idempotent_responses_expire() -> int:
    """Delete what is older than a day; returns how many answers went."""
    return IdempotentResponse.unscoped.filter(created_at__lte=timezone.now() - KEPT_FOR).delete()[0]


def _stored_response(row: IdempotentResponse) -> StoredResponse:
    written = json.loads(unseal(row.answer, lost=LOST))
    return StoredResponse(row.status, written["headers"], written["data"])


def _place(tenant: Tenant | None, actor: Actor, where: str, key: str) -> str:
    who = [tenant and tenant.pk, type(actor).__name__, str(actor and actor.pk)]
    return hashlib.sha256(json.dumps([*who, where, key]).encode()).hexdigest()
