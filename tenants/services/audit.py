"""Writing down who did what."""

from typing import Any

from tenants.models import ApiKey, AuditEvent, Tenant, User

Actor = User | ApiKey | None
"""Who acts: a person, a key, or the system itself."""


def person(actor: Actor) -> User | None:
    """The actor where only a person can stand, as in ``created_by``."""
    return actor if isinstance(actor, User) else None


def audit_record(
    *, verb: str, subject: str, tenant: Tenant | None, actor: Actor, detail: dict[str, Any] | None = None
) -> AuditEvent:
    """Write one audit event; call it inside the transaction of what it tells of."""
    return AuditEvent.unscoped.create(
        tenant=tenant,
        actor=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        verb=verb,
        subject=subject[:200],
        detail=detail or {},
    )
