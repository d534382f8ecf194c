"""The demo's administrator, tenants, logins and API keys."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings
from django.db import transaction

from hmi_site.demo.tasks import TASKS
from tenants.models import ApiKey, Tenant, User
from tenants.services.api_keys import api_key_create
from tenants.services.tenants import tenant_create

ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Login:
    """How one demo person signs in, and the API key of the tenant they own (none for the administrator)."""

    username: str
    password: str
    api_key: str = ""


def logins_path() -> Path:
    """Where the logins are kept: readable by the owner of the installation alone."""
    return Path(settings.HMI_HOME) / "demo.json"


def logins_read() -> dict[str, Login]:
    """The demo's logins by user name; empty before the demo was built."""
    try:
        stored = json.loads(logins_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {name: Login(**login) for name, login in stored.items()}


def people_ensure() -> dict[str, Login]:
    """Create whatever is absent of the administrator and the demo tenants; return their logins.

    Passwords and keys are random, and kept in a file, because the database knows only their hashes.
    """
    known = logins_read()
    with transaction.atomic():
        logins = {ADMIN: _admin_ensure(known.get(ADMIN))}
        for slug in dict.fromkeys(task.tenant for task in TASKS):
            logins[slug] = _tenant_ensure(slug, known.get(slug))
        _logins_write(logins)
    return logins


def _admin_ensure(known: Login | None) -> Login:
    user = User.objects.filter(username=ADMIN).first()
    if user is not None and known is not None and user.check_password(known.password):
        return known
    login = Login(ADMIN, secrets.token_urlsafe(9))
    if user is None:
        User.objects.create_superuser(ADMIN, password=login.password)
    else:
        user.set_password(login.password)
        user.save(update_fields=["password"])
    return login


def _tenant_ensure(slug: str, known: Login | None) -> Login:
    tenant = Tenant.objects.filter(slug=slug).first()
    owner = User.objects.filter(username=slug).first() or User(username=slug)
    if tenant is not None and known is not None and owner.check_password(known.password):
        return known
    password = secrets.token_urlsafe(9)
    owner.set_password(password)
    owner.save()
    if tenant is None:
        tenant = tenant_create(slug=slug, name=slug.capitalize(), owner=owner)
    ApiKey.unscoped.filter(tenant=tenant, name="demo").update(revoked=True)
    _, key = api_key_create(tenant=tenant, name="demo", scopes=["infer", "manage"], created_by=owner)
    return Login(slug, password, key)


def _logins_write(logins: dict[str, Login]) -> None:
    path = logins_path()
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({name: asdict(login) for name, login in logins.items()}, file, indent=2)
    temporary.replace(path)
