"""A walk over every route, with every method, as everybody."""

from copy import deepcopy
from dataclasses import fields
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client

from tests.e2e.world import World
from tests.integration.routes.codes import Codes
from tests.integration.routes.conf import address, routes
from tests.integration.routes.conftest import Places
from tests.integration.routes.table import ACCOUNTS, ADMIN, DECLARED, DOORS

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
OFTEN = ("GET", "POST")
PEOPLE = [field.name for field in fields(Codes)]
MIGHTIEST = {"owner", "admin"}
"""What is refused to these is refused to those who may less."""
REFUSED = {401, 403, 404, 405}


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """How often somebody tried is remembered by the process."""
    cache.clear()


def browser_of(person: str, world: World) -> Client:
    """A browser in which this person is signed in."""
    client = Client(raise_request_exception=False)
    if person != "anonymous":
        client.force_login(getattr(world, person))
    return client


def ask(client: Client, method: str, path: str) -> HttpResponseBase:
    """The answer to a request without data; whatever it changed is undone."""
    api = path.startswith(("/api/", "/v1/"))
    where = f"{path}?tenant=acme" if api and "/tenants" not in path and "/platform/" not in path else path
    sent: dict[str, Any] = {"data": "{}", "content_type": "application/json"} if api else {"data": ""}
    cookies = deepcopy(client.cookies)
    with transaction.atomic():
        answer = client.get(where) if method == "GET" else client.generic(method, where, **sent)
        transaction.set_rollback(True)
    client.cookies = cookies
    return answer


def test_every_route_is_declared_and_every_declared_one_is_there() -> None:
    found = {route for route in routes() if not route.startswith(ADMIN)}
    assert found - DECLARED.keys() == set(), "Say in table.py who may do what there."
    assert DECLARED.keys() - found == set(), "These are gone; take them out of table.py."


@pytest.mark.parametrize("person", PEOPLE)
def test_everybody_gets_what_is_declared_and_a_method_that_is_not_is_refused(
    person: str, world: World, found: tuple[Places, Places]
) -> None:
    client, faults = browser_of(person, world), []
    values, of_the_platform = found
    for route, methods in DECLARED.items():
        path = address(route, of_the_platform if "platform/" in route else values)
        for method in METHODS if person in MIGHTIEST and route not in ACCOUNTS else methods:
            answer = ask(client, method, path)
            if method in methods:
                expected = getattr(methods[method], person)
                right = answer.status_code == expected
            else:
                expected = "refused"
                right = answer.status_code in REFUSED or to_sign_in(answer)
            if not right:
                faults.append(f"{method} {path}: {answer.status_code}, not {expected}")
    assert not faults, "\n".join(faults)


def to_sign_in(answer: HttpResponseBase) -> bool:
    """Whether the answer leads to where one signs in."""
    return answer.status_code == 302 and answer.headers["Location"].startswith("/login/")


@pytest.mark.parametrize("person", [person for person in PEOPLE if person != "admin"])
def test_the_administration_is_closed_to_all_others(person: str, world: World) -> None:
    client, faults = browser_of(person, world), []
    for path in addresses_of_the_administration():
        for method in OFTEN:
            answer = ask(client, method, path)
            refused = answer.status_code in REFUSED or to_sign_in(answer) or to_admin_sign_in(answer)
            if not refused:
                faults.append(f"{method} {path}: {answer.status_code}")
    assert not faults, "\n".join(faults)


def test_administrators_come_everywhere_in_the_administration(world: World) -> None:
    client = browser_of("admin", world)
    for path in addresses_of_the_administration():
        answer = ask(client, "GET", path)
        assert answer.status_code in {200, 302, 403, 404, 405}, path
        assert b" object at 0x" not in getattr(answer, "content", b""), f"{path} shows what nobody can read"
    for path in ("/admin/", "/admin/tenants/tenant/", "/admin/axes/accessattempt/"):
        assert ask(client, "GET", path).status_code == 200, path


def addresses_of_the_administration() -> list[str]:
    """All of them, each with the first row of its table."""
    of_rows = {"object_id": 1, "app_label": "tenants", "url": "nothing", "content_type_id": 1}
    orders = {"worker": "w1", "what": "drain"}
    return [
        address(route, of_rows | orders)
        for route in routes()
        if route.startswith(ADMIN) and route not in DOORS
    ]


def to_admin_sign_in(answer: HttpResponseBase) -> bool:
    """Whether the answer leads to the administration's own address for that, which refuses or leads on."""
    return answer.status_code == 302 and answer.headers["Location"].startswith("/admin/login/")
