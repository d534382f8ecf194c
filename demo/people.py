"""The demo's administrator, tenants, logins and API keys."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings
from django.db import transaction

from demo.generative import demo_tasks
from tenants.accounts.models import ApiKey, Tenant, User
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.tenants import tenant_create

ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Login:
    """How one demo person signs in, and the API key of the tenant they own (none for the administrator).

    An empty password is one that the person has changed since.
    """

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


def admin_ensure() -> Login | None:
    """Create the administrator of an installation that has none. Returns the login, None if somebody else
    administrates it."""
    known = logins_read()
    if ADMIN not in known and User.objects.filter(is_superuser=True).exists():
        return None
    login = Login(ADMIN, _password(ADMIN, known, superuser=True))
    if known.get(ADMIN) != login:
        _logins_write(known | {ADMIN: login})
    return login


@transaction.atomic
def people_ensure(*, generative: bool = True) -> dict[str, Login]:
    """Create whatever is absent of the administrator and the demo tenants; return their logins. A tenant
    that somebody deleted stays deleted.

    Passwords and keys are random, and kept in a file, because the database knows only their hashes. A
    password that somebody has changed stays as it is; a key is made when the one in the file does not work.
    """
    known = logins_read()
    logins = known | {ADMIN: Login(ADMIN, _password(ADMIN, known, superuser=True))}
    for slug in dict.fromkeys(task.tenant for task in demo_tasks(generative=generative)):
        tenant = Tenant.objects.filter(slug=slug).first()
        if tenant is not None and tenant.deletion_requested_at is not None:
            continue
        password = _password(slug, known, superuser=False)
        owner = User.objects.get(username__iexact=slug)
        if tenant is None:
            tenant = tenant_create(slug=slug, name=slug.capitalize(), owner=owner)
        logins[slug] = Login(slug, password, _api_key(tenant, owner, known))
    if logins != known:
        _logins_write(logins)
    return logins


def _password(username: str, known: dict[str, Login], *, superuser: bool) -> str:
    user = User.objects.filter(username__iexact=username).first()
    if user is not None:
        password = known[username].password if username in known else ""
        return password if user.check_password(password) else ""
    password = secrets.token_urlsafe(9)
    create = User.objects.create_superuser if superuser else User.objects.create_user
    create(username, password=password)
    return password


def _api_key(tenant: Tenant, owner: User, known: dict[str, Login]) -> str:
    login = known.get(tenant.slug)
    if login is not None and ApiKey.unscoped.is_valid(login.api_key):
        return login.api_key
    _, key = api_key_create(tenant=tenant, name="demo", scopes=["infer", "manage"], created_by=owner)
    return key


def _logins_write(logins: dict[str, Login]) -> None:
    path = logins_path()
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({name: asdict(login) for name, login in logins.items()}, file, indent=2)
    temporary.replace(path)
