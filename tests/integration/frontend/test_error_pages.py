"""Error pages stand within the navigation of whoever is signed in, also when the database is down."""

from typing import Any

from django.test import Client, RequestFactory
from pytest_django import DjangoAssertNumQueries

from frontend.access import tenant_access
from hmi_site.http import errors
from tenants.accounts.models import Role
from tests.e2e.world import World

MODELS = '<a href="/t/acme/models/"'


def test_a_page_that_does_not_exist_keeps_the_navigation(owner: Client) -> None:
    for address in ("/t/acme/nothing/", "/nothing/", "/t/acme/models/nothing/"):
        answer = owner.get(address)
        assert answer.status_code == 404
        assert MODELS in answer.content.decode(), address


def test_a_stranger_sees_the_own_navigation_and_whoever_is_not_signed_in_none(
    client: Client, world: World
) -> None:
    assert 'aria-label="Main"' not in client.get("/nothing/").content.decode()
    client.force_login(world.stranger)
    page = client.get("/t/acme/models/").content.decode()
    assert MODELS not in page
    assert '<a href="/t/umbra/models/"' in page


def test_an_error_of_the_server_keeps_the_navigation_without_the_database(
    rf: RequestFactory, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    request: Any = rf.get("/t/acme/models/")
    request.user = world.owner
    request.access = tenant_access(world.owner, "acme", Role.VIEWER)
    with django_assert_num_queries(0):
        page = errors.internal(request)
    assert page.status_code == 500
    assert MODELS in page.content.decode()
