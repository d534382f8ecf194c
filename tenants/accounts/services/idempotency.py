"""Idempotency keys: a lock for each, and stored responses for a day."""

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
from tenants.base.encryption import decrypt, encrypt

RETENTION: Final = timedelta(days=1)
MAX_RESPONSE_BYTES: Final = 256 * 1024
"""Larger responses are not stored."""
MAX_RESPONSES_PER_TENANT: Final = 10_000
"""Older ones are deleted."""
UNREADABLE: Final = "The response to this key cannot be decrypted with the new secret key. Use another key."


class IdempotencyKeyInUse(Exception):
    """Another request with this key is still being processed."""


class IdempotencyKeyReused(Exception):
    """The key was used for a request with another body."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response: its status, its headers without the content type, and its body as JSON."""

    status: int
    headers: dict[str, str]
    data: Any


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A request with a key, locked for this process. ``response`` is the stored response, if there is one."""

    key_digest: str
    tenant: Tenant | None
    fingerprint: str
    response: StoredResponse | None

    def save(self, response: StoredResponse) -> None:
        """Store the response for a day, unless it is too large."""
        content = json.dumps({"headers": response.headers, "data": response.data})
        if len(content) <= MAX_RESPONSE_BYTES:
            _store(self, response.status, encrypt(content))


@contextmanager
def idempotent_request(
    *, tenant: Tenant | None, actor: Actor, path: str, key: str, fingerprint: str
) -> Iterator[IdempotencyRecord]:
    """Lock the request of ``actor`` at ``path`` with this key, and yield its record.

    ``fingerprint`` is a digest of the request. Raises IdempotencyKeyInUse and IdempotencyKeyReused. If the
    process is killed, its lock ends (``advisory_lock``), and the next request counts as the first.
    """
    key_digest = _key_digest(tenant, actor, path, key)
    with advisory_lock(f"idempotency {key_digest}") as acquired:
        if not acquired:
            raise IdempotencyKeyInUse
        stored = IdempotentResponse.unscoped.filter(
            key_digest=key_digest, created_at__gt=timezone.now() - RETENTION
        ).first()
        if stored is not None and stored.fingerprint != fingerprint:
            raise IdempotencyKeyReused
        yield IdempotencyRecord(key_digest, tenant, fingerprint, _load(stored) if stored else None)


def idempotent_responses_expire() -> int:
    """Delete responses older than a day. Returns how many."""
    return IdempotentResponse.unscoped.filter(created_at__lte=timezone.now() - RETENTION).delete()[0]


@transaction.atomic
def _store(record: IdempotencyRecord, status: int, encrypted_response: str) -> None:
    """Replace an expired response, and delete the tenant's oldest ones."""
    IdempotentResponse.unscoped.filter(key_digest=record.key_digest).delete()
    IdempotentResponse(
        key_digest=record.key_digest,
        tenant=record.tenant,
        fingerprint=record.fingerprint,
        status=status,
        encrypted_response=encrypted_response,
    ).save(force_insert=True)
    newest_first = IdempotentResponse.unscoped.filter(tenant=record.tenant).order_by("-created_at")
    surplus = list(newest_first.values_list("key_digest", flat=True)[MAX_RESPONSES_PER_TENANT:])
    newest_first.filter(key_digest__in=surplus).delete()


def _load(row: IdempotentResponse) -> StoredResponse:
    content = json.loads(decrypt(row.encrypted_response, error_message=UNREADABLE))
    return StoredResponse(row.status, content["headers"], content["data"])


def _key_digest(tenant: Tenant | None, actor: Actor, path: str, key: str) -> str:
    caller = [tenant and tenant.pk, type(actor).__name__, str(actor and actor.pk)]
    return hashlib.sha256(json.dumps([*caller, path, key]).encode()).hexdigest()
