"""Every address below ``platform/`` asks for the permission that the administration asks for."""

import pytest
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.test import Client

from tenants.accounts.models import User
from tests.e2e.world import World
from tests.integration.routes.asking import ask
from tests.integration.routes.conf import address
from tests.integration.routes.conftest import Places
from tests.integration.routes.table import DECLARED

pytestmark = pytest.mark.slow

PLATFORM = "api/v1/platform/"
NEEDED = {
    "GET roots": "view_root",
    "POST roots": "add_root",
    "POST estimate/root": "add_root",
    "POST roots/<slug:name>/convert": "change_root",
    "POST roots/<slug:name>/rebase": "change_root",
    "POST roots/<slug:name>/retire": "change_root",
    "GET versions/<int:version_id>/export": "change_version",
    "POST import": "add_root",
    "GET corpora": "view_corpus",
    "POST corpora": "add_corpus",
    "GET corpora/<int:corpus_id>/fit": "view_corpus",
    "GET domains": "view_domain",
    "POST domains": "add_domain",
    "GET domains/<int:domain_id>/versions": "view_domain",
    "POST domains/<int:domain_id>/versions": "change_domain",
    "POST estimate/domain": "add_domain",
    "POST domains/<int:domain_id>/estimate": "change_domain",
    "POST domains/<int:domain_id>/compact": "change_domain",
    "POST domains/<int:domain_id>/rebase": "change_domain",
    "POST domains/<int:domain_id>/publish": "change_domain",
    "POST domains/<int:domain_id>/retire": "change_domain",
    "GET jobs": "view_job",
    "GET jobs/<uuid:job_id>": "view_job",
    "GET jobs/<uuid:job_id>/events": "view_job",
    "POST jobs/<uuid:job_id>/cancel": "change_job",
    "POST jobs/<uuid:job_id>/retry": "change_job",
    "PUT jobs/<uuid:job_id>/priority": "change_job",
    "POST jobs/<uuid:job_id>/requeue": "change_job",
    "PUT tenants/<slug:slug>/models/<slug:name>/pin": "change_hplm",
    "DELETE tenants/<slug:slug>/models/<slug:name>/pin": "change_hplm",
}


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """How often somebody tried is remembered by the process."""
    cache.clear()


def clerk(name: str, *permissions: str) -> Client:
    """Staff who have these permissions and no others."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def asked(where: str, places: Places) -> tuple[str, str]:
    """The method and the path."""
    method, route = where.split(" ", 1)
    return method, address(PLATFORM + route, places)


def test_every_address_of_the_platform_has_its_permission_here() -> None:
    declared = {
        f"{method} {route.removeprefix(PLATFORM)}"
        for route, methods in DECLARED.items()
        if route.startswith(PLATFORM)
        for method in methods
    }
    assert declared == NEEDED.keys()


def test_staff_without_the_permission_are_refused_and_told_which_it_is(
    world: World, found: tuple[Places, Places]
) -> None:
    for number, (where, needed) in enumerate(NEEDED.items()):
        # Who may change rows may see them, as in the administration; an archive has a root or a domain.
        counting = {needed, needed.replace("view_", "change_"), "add_domain" if "import" in where else needed}
        others = set(Permission.objects.values_list("codename", flat=True)) - counting
        answer = ask(clerk(f"clerk-{number}", *others), *asked(where, found[1]))
        assert answer.status_code == 403, where
        assert needed in answer.json()["error"]["message"], where  # type: ignore[attr-defined]


def test_the_permission_alone_opens_the_address(world: World, found: tuple[Places, Places]) -> None:
    for number, (where, needed) in enumerate(NEEDED.items()):
        method, path = asked(where, found[1])
        expected = DECLARED[PLATFORM + where.split(" ", 1)[1]][method].admin
        answer = ask(clerk(f"clerk-{number}", needed), method, path)
        assert answer.status_code == expected, where


def test_a_permission_without_being_staff_is_none(world: World, found: tuple[Places, Places]) -> None:
    client = clerk("clerk", *NEEDED.values())
    User.objects.filter(username="clerk").update(is_staff=False)
    for where in NEEDED:
        assert ask(client, *asked(where, found[1])).status_code == 403, where
