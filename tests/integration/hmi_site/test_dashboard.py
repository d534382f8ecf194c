"""The first page of the administration, and the page of the inference workers."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from redis import Redis

from hmi_site import env
from hmi_site.dashboard import disk
from hmi_site.dashboard.navigation import MENU
from inference.api.admission import close_gateway
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import DecoderStatus, Levels, Recently, RecentlyGenerated, WorkerStatus
from inference.queueing.worker_commands import DRAIN, REFRESH, RESUME, CommandListener
from tenants.accounts.models import Tenant, User
from tenants.audit.models import AuditEvent
from tenants.usage.models import Quota
from tenants.usage.services.usage import usage_record
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import plain
from versiontree.jobs.services.lifecycle import job_fail
from versiontree.tree.models import Version

PAGES = ("/admin/", "/admin/live/", "/admin/serving/")


@pytest.fixture
def root(staff: Client, tmp_path: Any) -> Version:
    """With a model below it."""
    root = tree_factory.ready_root(tmp_path)
    tree_factory.ready_hplm(root, "spam", tree_factory.create_tenant("acme"))
    return Version.unscoped.get(pk=root.pk)


def beat(redis: Redis, name: str, root: Version | None = None, **more: Any) -> None:
    """A worker with a heartbeat that serves the root, if any."""
    serves: dict[str, Any] = {"roots": (root.root.name,), "root_digests": (root.digest,)} if root else {}
    status = WorkerStatus(name, more.pop("state", "ready"), "cpu", "float32", **serves, **more)
    Heartbeat(redis, name, status.encode, life_s=60).beat()


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return " ".join(plain(answer).split())


@pytest.mark.slow
def test_all_pages_look_right_while_nothing_runs_and_while_the_queue_is_away(
    staff: Client, settings: Any
) -> None:
    for address in PAGES[:2]:
        assert "No inference worker is running" in read(staff, address)
    assert "No root is ready." in read(staff, PAGES[2])
    close_gateway()
    settings.REDIS_URL = "unix:///tmp/D-nowhere.sock"
    for address in PAGES:
        assert "The queue cannot be reached" in read(staff, address)


def test_every_list_is_a_tab_below_one_entry_of_the_menu(staff: Client) -> None:
    in_menu = sorted(name for entry in MENU for name in entry.models)
    assert in_menu == sorted(model._meta.label for model in admin.site._registry)
    listed = staff.get(reverse("admin:jobs_job_changelist")).content.decode()
    tabs = listed.split('id="tabs-items"')[1].split("</nav>")[0]
    for model in ("jobs_job", "batches_batch", "datasets_upload"):
        assert f'href="{reverse(f"admin:{model}_changelist")}"' in tabs


def test_staff_see_the_entries_that_they_may_view(client: Client, staff: Client) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_batch"))
    client.force_login(clerk)
    menu = client.get("/admin/").content.decode().split('id="nav-sidebar-apps"')[1].split("</ol>")[0]
    links = re.findall(r'href="([^"]+)"', menu)
    assert links == ["/admin/", "/admin/batches/batch/", "/admin/serving/"]


def test_the_dashboard_tells_what_workers_and_jobs_do_and_what_to_look_at(
    staff: Client, root: Version, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    recently = Recently(312.4, 2210, 12.4, 40.0, 81.5, levels=Levels(60, 25, 15, 60, 30, 40))
    writes: dict[str, Any] = {
        "decoders": (DecoderStatus("smol", 2, 1),),
        "generated": RecentlyGenerated(7, 41.5, 230, 900),
    }
    faults: dict[str, Any] = {"slot_mismatches": 2, "last_error": "no room"}
    beat(redis_client, "w1", recently=recently, resident=9, hplms=10, **writes, **faults)
    job = tree_factory.jobs_in_order(
        tree_factory.new_hplm(root, "ham", tree_factory.create_tenant("globex"))
    )[0]
    job_fail(job_id=job.pk, worker=tree_factory.claim(job), code="out_of_memory", message="It did not fit.")
    text = read(staff, "/admin/")
    for told in (
        "No worker serves the root bert (2 models).",
        "w1 rejected 2 rows because a slot held another model.",
        "w1: no room",
        "1 job failed today.",
        "From the tables 60.0%",
        "Known phrase 60.0%",
        "Rows per second312.4",
        "Median latency12 ms of 2,210 requests",
        "Completions7 last 30 s",
        "Tokens per second41.5",
        "Time to first token230 ms median; p95 900 ms",
        "Running0Queued0Succeeded4 todayFailed1 today",
        "Needs attention",
    ):
        assert told in text, told
    beat(redis_client, "w1", root, resident=9, hplms=10, pinned=3, pinned_resident=3)
    beat(redis_client, "w2", root, resident=7, hplms=10, pinned=3, pinned_resident=3)
    monkeypatch.setattr(disk, "FILLING", 0.0)
    text = read(staff, "/admin/")
    assert "No worker serves" not in text
    assert re.search(
        r"The disk of artifact store( and uploads)? is \d+% full, with [\d.]+\s[GT]B free\.", text
    )
    told = read(staff, PAGES[2])
    assert "Models in memory7 of 10 in the worker with the fewestPinned in memory3 of 3" in told


def test_the_dashboard_tells_which_tenants_have_used_up_a_quota(
    staff: Client, root: Version, settings: Any
) -> None:
    tenant = Tenant.objects.get(slug="acme")
    usage_record(tenant=tenant, model_name="spam", inputs=1, tokens=9)
    assert "has used up its quota" not in read(staff, "/admin/")
    limits = {"max_models": 1, "max_requests_per_day": 1, "max_storage_bytes": 1}
    Quota.unscoped.filter(tenant=tenant).update(**limits)
    text = read(staff, "/admin/")
    assert "acme has used up its quota of models (1 of 1)." in text
    assert "acme has used up its quota of requests today (1 of 1)." in text
    assert re.search(r"acme has used up its quota of storage \([\d.]+\s\w+ of 1\sbyte\)\.", text)
    assert "domains" not in text.split("Needs attention")[1].split("Serving")[0]
    assert "Nothing needs attention" not in read(staff, "/admin/live/?slow")


def test_the_settings_page_shows_values_without_secrets(
    staff: Client, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use = {"HMI_SECRET_KEY": "s3cret", "DATABASE_URL": "postgres://hmi:pa55@db:5432/hmi?password=pa55"}
    monkeypatch.setattr(env, "in_use", env.in_use | in_use | {"HMI_HTTPS": True, "HMI_RATE_TOKENS": 600})
    monkeypatch.setenv("HMI_HTTPS", "yes")
    text = read(staff, "/admin/settings/")
    assert "HMI_SECRET_KEY Signs sessions and seals second factors. hidden" in text
    assert "per minute, unless its quota says otherwise. 600" in text, "a limit, not a secret"
    assert "postgres://db:5432/hmi Default" in text
    assert "on Environment" in text
    assert not re.search("s3cret|pa55", text)
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    assert client.get("/admin/settings/").status_code == 403


@pytest.fixture
def orders(staff: Client, redis_client: Redis, root: Version) -> Iterator[list[str]]:
    """What two workers were told."""
    told: list[str] = []

    def obey(name: str, what: str) -> bytes:
        told.append(f"{what} {name}")
        return b"done"

    def answers(name: str) -> dict[str, Any]:
        return {what: (lambda what=what: obey(name, what)) for what in (DRAIN, RESUME, REFRESH)}

    for name in ("w1", "w2"):
        beat(redis_client, name, root)
    with (
        CommandListener(redis_client, "w1", answers("w1")),
        CommandListener(redis_client, "w2", answers("w2")),
    ):
        yield told


def test_workers_are_told_what_to_do_and_the_last_are_drained_by_name(
    staff: Client, orders: list[str], redis_client: Redis, root: Version
) -> None:
    text = read(staff, "/admin/serving/")
    assert ("w1" in text, "w1, w2" in text) == (True, True)
    for what in (DRAIN, RESUME, REFRESH):
        staff.post(f"/admin/serving/w1/{what}/")
    assert orders == ["drain w1", "resume w1", "refresh w1"]
    staff.post("/admin/serving/drain/", {"typed_name": "drain 1 workers"})
    assert len(orders) == 3
    staff.post("/admin/serving/drain/", {"typed_name": "drain 2 workers"})
    assert orders[3:] == ["drain w1", "drain w2"]
    beat(redis_client, "w2", root, state="drained")
    assert "No other worker takes requests" in staff.post("/admin/serving/w1/drain/").content.decode()
    assert len(orders) == 5
    staff.post("/admin/serving/w1/drain/", {"typed_name": "w1"})
    assert orders[5:] == ["drain w1"]
    assert AuditEvent.unscoped.filter(verb__startswith="worker.", actor__username="boss").count() == 6
    told = staff.post("/admin/serving/absent/refresh/", follow=True).content.decode()
    assert "No inference worker" in told
    assert staff.post("/admin/serving/w1/explode/", follow=True).status_code == 200
    call_command("workers", "resume", "w2")
    assert orders[6:] == ["resume w2"]


def test_staff_without_the_right_see_the_workers_and_tell_them_nothing(
    client: Client, orders: list[str]
) -> None:
    client.force_login(User.objects.create_user("viewer", is_staff=True))
    page = client.get("/admin/serving/").content.decode()
    assert ("w1" in page, "Drain" in page) == (True, False)
    for address in ("/admin/serving/w1/drain/", "/admin/serving/drain/"):
        assert client.post(address, {"typed_name": "drain 2 workers"}).status_code == 403
    assert orders == []
