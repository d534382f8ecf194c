"""Tenants, users, memberships, invitations and API keys."""

from tenants.accounts.models.api_key import ApiKey, Scope
from tenants.accounts.models.idempotency import IdempotentResponse
from tenants.accounts.models.invitation import Invitation, InvitationState
from tenants.accounts.models.tenant import Membership, Role, Tenant
from tenants.accounts.models.user import User

__all__ = [
    "ApiKey",
    "IdempotentResponse",
    "Invitation",
    "InvitationState",
    "Membership",
    "Role",
    "Scope",
    "Tenant",
    "User",
]
