"""One small world: two tenants, and people who stand in every relation to them."""

from dataclasses import dataclass

from rest_framework.test import APIClient

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.members import member_add
from tenants.accounts.services.tenants import tenant_create
from tenants.base.scope import platform_scope, tenant_scope

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True, slots=True)
class World:
    """``tenant`` (acme) has an owner, a developer and a viewer. ``other`` (globex) belongs to the stranger,
    who has nothing to do with acme. ``staff`` runs the platform and is a member of nothing.
    """

    tenant: Tenant
    other: Tenant
    owner: User
    developer: User
    viewer: User
    stranger: User
    staff: User

    def key(self, *scopes: str, tenant: Tenant | None = None) -> tuple[ApiKey, str]:
        """A new key of the tenant (acme) and its plaintext; both scopes unless some are named."""
        tenant, scopes = tenant or self.tenant, scopes or ("infer", "manage")
        with tenant_scope(tenant):
            return api_key_create(tenant=tenant, name="a key", scopes=scopes, created_by=self.owner)

    def client(self, user: User | None = None, *, key: str | None = None) -> APIClient:
        """An API client: signed in as the user, or sending the key, or nobody."""
        client = APIClient()
        if user is not None:
            client.force_login(user)
        if key is not None:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
        return client


def make_user(username: str, *, staff: bool = False) -> User:
    """A person who can sign in with ``PASSWORD``."""
    return User.objects.create_user(
        username, f"{username}@example.org", PASSWORD, is_staff=staff, is_superuser=staff
    )


@platform_scope()
def make_world() -> World:
    """Everything above, in the database."""
    people = {name: make_user(name) for name in ("owner", "developer", "viewer", "stranger")}
    tenant = tenant_create(slug="acme", name="Acme", owner=people["owner"])
    member_add(tenant=tenant, user=people["developer"], role="developer")
    member_add(tenant=tenant, user=people["viewer"], role="viewer")
    return World(
        tenant=tenant,
        other=tenant_create(slug="globex", name="Globex", owner=people["stranger"]),
        staff=make_user("staff", staff=True),
        **people,
    )
