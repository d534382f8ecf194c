"""The first tenant, user and key of an installation without hands: the settings HMI_INIT_*."""

import secrets
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from rest_framework_api_key.crypto import KeyGenerator

from hmi_site.embedded.process import ChildError
from tenants.accounts.models import ApiKey, Membership, Role, Tenant, User
from tenants.accounts.services.api_keys import api_key_import
from tenants.accounts.services.tenants import tenant_create
from tenants.base.errors import ErrorCode, HmiError


@dataclass(frozen=True, slots=True)
class FirstAccount:
    """What this start created. ``password`` is that of ``user`` if it was generated."""

    tenant: str = ""
    user: str = ""
    password: str = ""
    api_key: bool = False


def first_account_ensure() -> FirstAccount:
    """Create what HMI_INIT_TENANT, HMI_INIT_USER and HMI_INIT_KEY name and is absent. What is there stays as
    it is. Raises ChildError for values that cannot be used, and creates nothing then."""
    try:
        with transaction.atomic():
            user, password = _user() if settings.HMI_INIT_USER else (None, None)
            tenant, is_new = _tenant(user) if settings.HMI_INIT_TENANT else (None, False)
            has_key = bool(tenant and settings.HMI_INIT_KEY and _key(tenant, user))
    except HmiError as error:
        setting = "HMI_INIT_KEY" if error.param == "key" else "HMI_INIT_TENANT"
        raise ChildError(f"{setting}: {error.message}") from None
    return FirstAccount(
        tenant=settings.HMI_INIT_TENANT if is_new else "",
        user=settings.HMI_INIT_USER if password is not None else "",
        password="" if settings.HMI_INIT_PASSWORD else password or "",
        api_key=has_key,
    )


def _user() -> tuple[User, str | None]:
    """The user, and the password if the user is new."""
    known = User.objects.filter(username__iexact=settings.HMI_INIT_USER).first()
    if known is not None:
        return known, None
    password = settings.HMI_INIT_PASSWORD or secrets.token_urlsafe(12)
    return User.objects.create_superuser(settings.HMI_INIT_USER, password=password), password


def _tenant(user: User | None) -> tuple[Tenant, bool]:
    slug = settings.HMI_INIT_TENANT
    known = Tenant.objects.filter(slug=slug).first()
    if known is None:
        return tenant_create(slug=slug, name=slug, owner=user), True
    if user is not None and not Membership.unscoped.filter(tenant=known).exists():
        Membership.unscoped.create(tenant=known, user=user, role=Role.OWNER)
    return known, False


def _key(tenant: Tenant, user: User | None) -> bool:
    """Create the key if its prefix is new. Returns whether it was created."""
    prefix, _, _ = settings.HMI_INIT_KEY.partition(".")
    known = ApiKey.unscoped.filter(pk=prefix).first()
    if known is not None and not KeyGenerator().verify(settings.HMI_INIT_KEY, known.hashed_key):
        message = f"There is another key with the prefix {prefix}."
        raise HmiError(ErrorCode.CONFLICT, message, param="key")
    if known is None:
        api_key_import(
            tenant=tenant,
            name="init",
            plaintext=settings.HMI_INIT_KEY,
            scopes=["infer", "manage"],
            created_by=user,
        )
    return known is None
