"""Writing audit events."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from django.apps import apps
from django.contrib.auth import get_user_model
from structlog.contextvars import get_contextvars

from tenants.audit.models import AuditEvent
from tenants.base.client_address import current_client_address
from tenants.base.scope import platform_scope

if TYPE_CHECKING:
    from tenants.accounts.models import ApiKey, Tenant, User

Actor: TypeAlias = "User | ApiKey | None"
"""The user, the API key, or None for the system."""


def person(actor: Actor) -> "User | None":
    """The actor if it is a user, else None; for fields such as ``created_by``."""
    return actor if isinstance(actor, get_user_model()) else None


def audit_record(
    *, verb: str, subject: str, tenant: "Tenant | None", actor: Actor, detail: dict[str, Any] | None = None
) -> AuditEvent:
    """Write an audit event. Call it inside the transaction of the change.

    The event also has the client's address and the request id.
    """
    event = AuditEvent(
        tenant=tenant,
        actor=person(actor),
        api_key=actor if isinstance(actor, apps.get_model("accounts", "ApiKey")) else None,
        verb=verb,
        subject=subject[:200],
        detail=detail or {},
        address=current_client_address(),
        request_id=get_contextvars().get("request_id", ""),
    )
    # A request of a tenant may record events of the platform, such as the export of a root's version.
    with nullcontext() if tenant else platform_scope():
        event.save(force_insert=True)
    return event
