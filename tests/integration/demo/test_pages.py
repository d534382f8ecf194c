"""The demo on the pages: its badge, and the buttons of the dashboard."""

from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rich.console import Console

from demo.options import DemoOptions
from demo.record.models import Demo, DemoPart, Goal
from demo.record.selectors import DemoState, demo_status
from demo.record.services import demo_request
from hmi_site.launcher.first_account import FirstAccount
from hmi_site.management.commands import up
from tenants.accounts.models import User
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import plain
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings: Settings, tmp_path: Path, artifact_root: Path, redis_url: str) -> None:
    settings.HMI_HOME = tmp_path


@pytest.fixture
def acme(tmp_path: Path) -> TenantFixture:
    """A tenant of the demo: the model `spam` is the demo's, `mine` is not."""
    acme, root = tree_factory.create_tenant("acme"), tree_factory.ready_root(tmp_path)
    hplm = tree_factory.ready_hplm(root, "spam", acme).hplm
    tree_factory.ready_hplm(root, "mine", acme)
    DemoPart.unscoped.create(
        name="acme/spam", version=1, tenant=acme.tenant, hplm=hplm, made_at=timezone.now()
    )
    return acme


@pytest.fixture
def staff() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def read(client: Client, address: str) -> str:
    return " ".join(plain(client.get(address)).split())


def test_the_demo_and_its_models_are_marked_and_models_of_people_are_not(acme: TenantFixture) -> None:
    client = signed_in(acme.owner)
    assert "This tenant belongs to the demo" in read(client, "/t/acme/")
    models = read(client, "/t/acme/models/")
    assert "spam Demo" in models
    assert "mine Demo" not in models
    # The first one is in the navigation, beside the tenant.
    assert read(client, "/t/acme/models/spam/").count("Demo") == 2
    assert read(client, "/t/acme/models/mine/").count("Demo") == 1


def test_other_tenants_have_no_badge() -> None:
    other = tree_factory.create_tenant("other")
    assert "Demo" not in read(signed_in(other.owner), "/t/other/")


def test_an_empty_home_says_what_to_do_first_and_offers_the_sample() -> None:
    other = tree_factory.create_tenant("other")
    other.dataset.delete()
    other.corpus.delete()
    page = read(signed_in(other.owner), "/t/other/")
    assert "Wait for a root" in page
    assert "Use a sample dataset" in page


def test_an_empty_installation_says_what_to_do_first(staff: Client) -> None:
    page = read(staff, "/admin/")
    assert "Register a root" in page
    assert "Create a tenant" in page
    assert "Build the demo" in page


def test_the_first_steps_are_gone_once_there_is_a_root(staff: Client, acme: TenantFixture) -> None:
    assert "Register a root" not in read(staff, "/admin/")


def test_one_button_builds_the_demo_and_its_state_is_shown(staff: Client) -> None:
    answer = staff.post("/admin/demo/built/", follow=True)
    assert "The demo is being built." in plain(answer)
    assert "Register a root" not in plain(answer), "the demo makes one"
    assert Job.unscoped.get().kind == "demo"


def test_removal_needs_a_confirmation(staff: Client, acme: TenantFixture) -> None:
    demo_request(goal=Goal.BUILT, actor=None, options=DemoOptions())
    Job.unscoped.filter(kind="demo").update(state="cancelled")
    confirmation = plain(staff.post("/admin/demo/rebuilt/"))
    assert "What people made stays" in " ".join(confirmation.split())
    assert "acme/spam" in confirmation
    assert Demo.objects.get().goal == Goal.BUILT
    staff.post("/admin/demo/rebuilt/", {"typed_name": "remove the demo"})
    assert Demo.objects.get().goal == Goal.REBUILT
    assert demo_status().state == DemoState.WORKING


def test_only_administrators_may_ask_for_it(acme: TenantFixture) -> None:
    assert signed_in(acme.owner).post("/admin/demo/built/").status_code in (302, 403)
    assert not Demo.objects.exists()


def test_why_it_is_not_complete_is_on_the_dashboard_and_goes_with_the_next_try(staff: Client) -> None:
    Demo.objects.create(pk=1, goal=Goal.BUILT, error="Convert of minilm:1: Canceled.")
    page = read(staff, "/admin/")
    assert "The demo is not complete. Convert of minilm:1: Canceled." in page
    staff.post("/admin/demo/built/")
    assert demo_status().error == ""


def test_the_command_asks_for_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("demo", "status")
    assert capsys.readouterr().out == "absent\n"
    call_command("demo", "build", "--demo-scale", "0.5")
    assert Demo.objects.get().options["scale"] == 0.5
    call_command("demo", "remove")
    call_command("demo", "status")
    assert capsys.readouterr().out.endswith("working\n")
    assert Demo.objects.get().goal == Goal.REMOVED
    assert Job.unscoped.filter(kind="demo").count() == 1


def test_a_start_during_the_removal_says_so_and_makes_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    demo_request(goal=Goal.REMOVED, actor=None)
    demo = up._demo(Console(), DemoOptions())
    assert demo is not None
    up.show_welcome(Console(), url="http://localhost:8000", account=FirstAccount(), demo=demo)
    printed = capsys.readouterr().out
    assert "The demo is being removed." in printed
    assert "curl" not in printed
    assert not User.objects.filter(username="acme").exists()
    assert demo_status().goal == Goal.REMOVED
