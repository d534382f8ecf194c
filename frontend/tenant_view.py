"""The read-only view of a tenant's pages that an administrator has open, kept in the session."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest
from django.utils import timezone

from tenants.accounts.models import Tenant, User
from tenants.accounts.services.tenant_views import tenant_view_end, tenant_view_start

_SESSION_KEY: Final = "tenant_view"


@dataclass(frozen=True, slots=True)
class TenantView:
    """The tenant's slug, and when the view expires."""

    slug: str
    until: datetime

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return timezone.now() >= self.until


def stored_view(request: HttpRequest) -> TenantView | None:
    """The view in the session, expired or not."""
    stored = request.session.get(_SESSION_KEY)
    return TenantView(stored["slug"], datetime.fromtimestamp(stored["until"], UTC)) if stored else None


def start_view(request: HttpRequest, tenant: Tenant, user: User) -> None:
    """Start a view of the tenant. A view of another tenant ends."""
    end_view(request, user, "another tenant")
    until = tenant_view_start(tenant=tenant, actor=user)
    request.session[_SESSION_KEY] = {"slug": tenant.slug, "until": until.timestamp()}


def end_view(request: HttpRequest, user: User, reason: str) -> Tenant | None:
    """End the view. Returns its tenant, or None if none is open."""
    view = stored_view(request)
    if view is None:
        return None
    del request.session[_SESSION_KEY]
    return tenant_view_end(slug=view.slug, actor=user, reason="expired" if view.has_expired else reason)


def _end_at_sign_out(*, request: HttpRequest | None, user: Any, **_: Any) -> None:
    if request is not None and isinstance(user, User):
        end_view(request, user, "signed out")


user_logged_out.connect(_end_at_sign_out)
