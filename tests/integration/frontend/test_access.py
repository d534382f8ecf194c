"""Who is let in where."""

import io

from django.test import Client
from django.urls import reverse

from frontend.urls import urlpatterns
from tenants.models import UploadCheck
from tenants.services.checks import check_create
from tenants.services.uploads import upload_receive
from tests.e2e.world import World
from tests.integration.versiontree.grove import jobs_in_order

OPEN = {"favicon", "start"}
STAFF = {"serving", "serving_trace"}
READ = {
    "home",
    "running",
    "tree",
    "tree_branch",
    "tree_card",
    "hplms",
    "data",
    "corpus",
    "dataset",
    "domain",
    "hplm",
    "jobs",
    "job",
    "job_progress",
    "job_log",
    "try",
    "hplm_version",
    "domain_version",
    "root_version",
    "settings",
    "corpus_fit",
    "dataset_fit",
    "corpus_coverage",
    "dataset_coverage",
}
WRITE = {
    "corpus_new", "dataset_new", "domain_new", "hplm_new", "hplm_update", "keys",
    "version_import", "version_export", "check", "check_bad_rows",
}  # fmt: skip
POST_WRITE = {
    "corpus_check", "dataset_check", "corpus_remove", "dataset_remove", "hplm_delete", "alias_move",
    "job_cancel", "job_retry", "upload_remove",
}  # fmt: skip
STREAMS = {"job_live"}  # of a job that is over there is none
POST_OWN = {"key_create", "key_revoke"}
POSTED = POST_WRITE | POST_OWN | {"try_answer"}
ALL = STREAMS | READ | WRITE | POSTED
OWN_DOMAIN = {"domain_update", "domain_compact", "domain_grow"}


def address(world: World, name: str) -> str:
    """The address of a page of the tenant, with ids of things that are the tenant's."""
    ids: dict[str, list[object]] = {
        "corpus": [world.corpus.pk],
        "corpus_remove": [world.corpus.pk],
        "dataset": [world.dataset.pk],
        "dataset_remove": [world.dataset.pk],
        "domain": [world.domain.domain_id],
        "tree_branch": ["domain", world.domain.domain_id],
        "tree_card": ["hplm", world.hplm.hplm_id],
        "domain_update": [world.domain.domain_id],
        "key_revoke": ["abcdefgh"],
        "corpus_fit": [world.corpus.pk],
        "dataset_fit": [world.dataset.pk],
        "corpus_coverage": [world.corpus.pk],
        "dataset_coverage": [world.dataset.pk],
        "hplm_version": [world.hplm.name, 1],
        "domain_version": [world.domain.domain_id, 1],
        "root_version": [world.root.root.name, 1],
        "version_export": [world.hplm.pk],
    }
    ids |= {page: [world.hplm.name] for page in ("hplm", "hplm_update", "hplm_delete", "alias_move")}
    if name in {"upload_remove", "check", "check_bad_rows"}:
        check = _check(world)
        ids[name] = [check.files["file"] if name == "upload_remove" else check.pk]
    first_job = jobs_in_order(world.hplm)[0]
    of_job = ("job", "job_progress", "job_live", "job_log", "job_cancel", "job_retry")
    ids |= {page: [first_job.pk] for page in of_job}
    more = ids.get(name, [])
    return reverse(f"frontend:{name}", args=[world.tenant.slug, *more])


def _check(world: World) -> UploadCheck:
    """A check of an upload that passed."""
    file = upload_receive(
        tenant=world.tenant, filename="a.txt", size=4, stream=io.BytesIO(b"text"), actor=world.owner
    )
    return check_create(
        tenant=world.tenant, kind="corpus", files={"file": file}, actor=world.owner, stores=False
    )


def answers(client: Client, world: World, names: set[str]) -> dict[str, int]:
    """The status of each page when it is asked for in the way it expects."""
    return {
        name: (client.post if name in POSTED else client.get)(address(world, name)).status_code
        for name in names
    }


def test_every_route_is_declared_here() -> None:
    assert {route.name for route in urlpatterns} == OPEN | STAFF | ALL | OWN_DOMAIN


def test_without_signing_in_every_page_leads_to_the_sign_in_page(client: Client, world: World) -> None:
    assert answers(client, world, ALL) == dict.fromkeys(ALL, 302)
    assert client.get(address(world, "jobs"))["Location"] == "/login/?next=/t/acme/jobs/"


def test_to_a_stranger_no_page_of_the_tenant_exists(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    assert answers(client, world, ALL) == dict.fromkeys(ALL, 404)


def test_a_viewer_may_look_at_everything_that_is_made(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    assert answers(client, world, READ) == dict.fromkeys(READ, 200)


def test_a_viewer_may_change_nothing(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    refused = WRITE | POST_WRITE | POST_OWN
    assert answers(client, world, refused) == dict.fromkeys(refused, 403)


def test_a_developer_may_not_make_keys(client: Client, world: World) -> None:
    client.force_login(world.developer)
    assert answers(client, world, POST_OWN) == dict.fromkeys(POST_OWN, 403)


def test_the_owner_may_open_every_page(owner: Client, world: World) -> None:
    assert answers(owner, world, READ | WRITE) == dict.fromkeys(READ | WRITE, 200)


def test_a_stranger_finds_none_of_anothers_things_under_his_own_tenant(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    for name in ("corpus", "dataset", "hplm", "job", "job_progress"):
        foreign = address(world, name).replace("/t/acme/", "/t/umbra/")
        assert client.get(foreign).status_code == 404, name


def test_a_viewer_is_shown_no_buttons_that_would_refuse_him(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    shown = "".join(client.get(address(world, name)).content.decode() for name in READ)
    for button in (
        "Delete",
        "Update with",
        "New hPLM",
        "New domain",
        "Upload a",
        "Upload data",
        "API keys",
        "Train a",
        "Make a",
    ):
        assert f">{button}" not in shown, button


def test_a_domain_of_the_platform_is_not_a_tenants_to_update(owner: Client, world: World) -> None:
    assert owner.get(address(world, "domain_update")).status_code == 404


def test_whoever_is_in_no_tenant_is_told_so(client: Client, world: World) -> None:
    world.viewer.memberships.all().delete()
    client.force_login(world.viewer)
    assert "belong to no tenant" in client.get("/").content.decode()


def test_the_start_leads_to_the_tenant_or_to_the_administration(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    assert client.get("/")["Location"] == "/t/acme/"
    client.force_login(world.admin)
    assert client.get("/")["Location"] == "/admin/"


def test_the_icon_is_there_for_pages_that_name_none(client: Client) -> None:
    answer = client.get("/favicon.ico", follow=True)
    assert answer.redirect_chain == [("/static/frontend/icon.svg", 302)]
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")


def test_a_fragment_takes_its_page_to_the_sign_in_page_when_the_session_has_ended(
    client: Client, world: World
) -> None:
    answer = client.get(address(world, "job_progress"), headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == "/login/"
