"""A walk over every route of the administration, with a row of every model, as everybody."""

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import DjangoDbBlocker

from tenants.accounts.models import User
from tenants.base.scope import platform_scope
from tests.e2e.world import World
from tests.integration.routes.admin_places import in_the_administration
from tests.integration.routes.admin_table import DECLARED, DOORS
from tests.integration.routes.asking import ask, browser_of, shown_in_place
from tests.integration.routes.conf import address, routes
from tests.integration.routes.conftest import Places
from tests.integration.routes.table import ADMIN

pytestmark = pytest.mark.slow

SIGN_IN = ("/admin/login/?next=", "/login/?next=")
OTHERS = ("stranger", "viewer", "developer")
"""They ask for a third each: what is refused to an owner is refused to those who may less."""


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """How often somebody tried is remembered by the process."""
    cache.clear()


@pytest.fixture(scope="module")
def values(
    found: tuple[Places, Places], built: tuple[World, object], django_db_blocker: DjangoDbBlocker
) -> Places:
    """What stands for parameters; made once."""
    with django_db_blocker.unblock(), platform_scope():
        return in_the_administration(built[0])


def staff_of(person: str, world: World) -> Client:
    """An administrator's browser, or that of staff without rights."""
    if person == "admin":
        return browser_of("admin", world)
    clerk = Client(raise_request_exception=False)
    clerk.force_login(User.objects.create_user("clerk", is_staff=True))
    return clerk


def test_every_route_is_declared_and_every_declared_one_is_there() -> None:
    found = {route for route in routes() if route.startswith(ADMIN)} - DOORS
    assert found - DECLARED.keys() == set(), "Say in admin_table.py what staff may do there."
    assert DECLARED.keys() - found == set(), "These are gone; take them out of admin_table.py."


@pytest.mark.parametrize("person", ["clerk", "admin"])
def test_staff_get_what_is_declared(person: str, world: World, values: Places) -> None:
    """Lists are looked at for a word, and whole after the other method."""
    client, faults = staff_of(person, world), []
    for route, methods in DECLARED.items():
        path = address(route, values)
        for method, codes in methods.items():
            answer = ask(client, method, f"{path}?q=a" if method == "GET" else path)
            expected = getattr(codes, person)
            if answer.status_code != expected:
                faults.append(f"{method} {path}: {answer.status_code}, not {expected}")
            if method == "GET" and shown_in_place(answer, path):
                faults.append(f"{path} is shown in place")
            if b" object at 0x" in getattr(answer, "content", b""):
                faults.append(f"{method} {path} shows what nobody can read")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("person", ["anonymous", "owner", *OTHERS])
def test_all_others_are_led_to_sign_in(person: str, world: World, values: Places) -> None:
    client, faults = browser_of(person, world), []
    declared = list(DECLARED.items())
    for route, methods in declared[OTHERS.index(person) :: len(OTHERS)] if person in OTHERS else declared:
        path = address(route, values)
        for method in methods:
            answer = ask(client, method, path)
            if not answer.headers.get("Location", "").startswith(SIGN_IN):
                faults.append(f"{method} {path}: {answer.status_code}")
    assert not faults, "\n".join(faults)
