"""A walk over every route, with every method, as everybody."""

from dataclasses import fields
from itertools import product

import pytest
from django.core.cache import cache
from django.http import HttpResponseBase

from tests.e2e.world import World
from tests.integration.routes.asking import ask, browser_of, shown_in_place
from tests.integration.routes.codes import Codes
from tests.integration.routes.conf import address, routes
from tests.integration.routes.conftest import Places
from tests.integration.routes.table import ACCOUNTS, ADMIN, DECLARED

pytestmark = pytest.mark.slow

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PEOPLE = [field.name for field in fields(Codes)]
MIGHTIEST = ("owner", "admin")
"""What is refused to these is refused to those who may less."""
REFUSED = {401, 403, 404, 405}
MEMBERS = ("owner", "developer", "viewer")
"""Of what all of them may look at, each looks at a third."""


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """How often somebody tried is remembered by the process."""
    cache.clear()


def test_every_route_is_declared_and_every_declared_one_is_there() -> None:
    found = {route for route in routes() if not route.startswith(ADMIN)}
    assert found - DECLARED.keys() == set(), "Say in table.py who may do what there."
    assert DECLARED.keys() - found == set(), "These are gone; take them out of table.py."


@pytest.mark.parametrize("person", PEOPLE)
def test_everybody_gets_what_is_declared(person: str, world: World, found: tuple[Places, Places]) -> None:
    client, faults = browser_of(person, world), []
    for number, (route, methods) in enumerate(DECLARED.items()):
        path = address(route, places_of(route, found))
        for method, codes in methods.items():
            for_all = method == "GET" and len({getattr(codes, member) for member in MEMBERS}) == 1
            if for_all and person in MEMBERS and person != MEMBERS[number % len(MEMBERS)]:
                continue
            answer, expected = ask(client, method, path), getattr(codes, person)
            if answer.status_code != expected:
                faults.append(f"{method} {path}: {answer.status_code}, not {expected}")
            if method == "GET" and shown_in_place(answer, path):
                faults.append(f"{path} is shown in place")
    assert not faults, "\n".join(faults)


def test_a_method_that_is_not_declared_is_refused(world: World, found: tuple[Places, Places]) -> None:
    """To those who may most. A route that says itself what it takes need be asked but once."""
    clients, faults = [browser_of(person, world) for person in MIGHTIEST], []
    for route, methods in DECLARED.items():
        path = address(route, places_of(route, found))
        others = [method for method in METHODS if method not in methods] if route not in ACCOUNTS else []
        if others and any(taken(ask(client, others[0], path)) <= methods.keys() for client in clients):
            continue
        for client, method in product(clients, others):
            answer = ask(client, method, path)
            if answer.status_code not in REFUSED and not to_sign_in(answer):
                faults.append(f"{method} {path}: {answer.status_code}, not refused")
    assert not faults, "\n".join(faults)


def places_of(route: str, found: tuple[Places, Places]) -> Places:
    """What stands for its parameters."""
    in_the_tenant, on_the_platform = found
    return on_the_platform if "platform/" in route else in_the_tenant


def taken(answer: HttpResponseBase) -> set[str]:
    """The methods that a route takes, as it says itself when it refuses one; all, where it does not say."""
    if answer.status_code != 405:
        return set(METHODS)
    return set(answer.headers["Allow"].split(", ")) - {"HEAD", "OPTIONS"}


def to_sign_in(answer: HttpResponseBase) -> bool:
    """Whether the answer leads to where one signs in."""
    return answer.status_code == 302 and answer.headers["Location"].startswith("/login/")
