"""Pictures of the administration: dashboard, workers, each list and the page of a row, a name asked for."""

from collections.abc import Iterator
from typing import Literal

import pytest
from django.contrib import admin
from django.urls import reverse
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer
from redis import Redis

from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import Levels, Recently, WorkerStatus
from tests.e2e.gallery import furnish
from tests.e2e.looking import SCHEMES, SIZES, picture
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import PASSWORD, World
from versiontree.models import Hplm, Version

WITH_FORMS = ("root", "domain", "hplm")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_screenshots_of_the_administration_fit_their_width(
    browser: Browser,
    live_server: LiveServer,
    world: World,
    files: TinyFiles,
    redis_client: Redis,
    size: str,
    scheme: Literal["light", "dark"],
) -> None:
    context = browser.new_context(base_url=live_server.url, viewport=SIZES[size], color_scheme=scheme)
    page = context.new_page()
    page.goto("/login/?next=/admin/")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Serving").wait_for()
    too_wide = {"admin-nothing-runs": picture(page, f"admin-nothing-runs-{size}-{scheme}")}
    furnish(world, files)
    _workers(redis_client, world)
    for name in _opened(page):
        if (beyond := picture(page, f"{name}-{size}-{scheme}")) > 0:
            too_wide[name] = beyond
    context.close()
    assert {name: beyond for name, beyond in too_wide.items() if beyond > 0} == {}


def _workers(redis: Redis, world: World) -> None:
    """Two workers, of which one is drained."""
    digest = Version.unscoped.get(pk=world.root.pk).digest
    recently = Recently(312.4, 2210, 12.4, 40.0, 81.5, levels=Levels(7241, 420, 121, 2218))
    for name, state in (("gpu-0", "ready"), ("gpu-1", "drained")):
        status = WorkerStatus(
            name,
            state,  # type: ignore[arg-type]
            "cuda:0",
            "bfloat16",
            ("minilm",),
            (digest,),
            revision=12,
            hplms=10_000,
            resident=9_120,
            resident_bytes=18_000_000_000,
            pinned=3,
            pinned_resident=3,
            host_bytes=2_400_000_000,
            device_used_bytes=31_000_000_000,
            device_total_bytes=80_000_000_000,
            recently=recently,
        )
        Heartbeat(redis, name, status.to_json, life_s=600).beat()


def _opened(page: Page) -> Iterator[str]:
    """Each page in turn."""
    for name, address in {
        "admin": reverse("admin:index"),
        "admin-workers": reverse("admin:serving-workers"),
    }.items():
        page.goto(address)
        page.locator(".hmi-card").first.wait_for()
        yield name
    for model in admin.site._registry:
        row = model._base_manager.order_by("pk").first()
        where = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        page.goto(reverse(f"{where}_changelist"))
        yield f"admin-{model._meta.model_name}-list"
        if model._meta.model_name in WITH_FORMS:
            page.goto(reverse(f"{where}_add"))
            yield f"admin-{model._meta.model_name}-new"
        if row is not None:
            page.goto(reverse(f"{where}_change", args=[row.pk]))
            yield f"admin-{model._meta.model_name}"
    hplm = Hplm.unscoped.order_by("pk").first()
    assert hplm is not None
    page.goto(reverse("admin:versiontree_hplm_change", args=[hplm.pk]))
    page.get_by_role("button", name="Delete: stop serving").click()
    page.get_by_label("to go on").fill("something else")
    page.get_by_role("button", name="Delete").click()
    yield "admin-name-asked-for"
