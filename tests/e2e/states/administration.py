"""The administration: before anything runs, then with workers; every list and form, pages of rows, and what
is asked before something goes."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import reverse
from playwright.sync_api import Page
from redis import Redis

from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import (
    DecoderStatus,
    Levels,
    Recently,
    RecentlyGenerated,
    TracedSpan,
    WorkerStatus,
)
from tests.e2e.conftest import Enter
from tests.e2e.gallery import furnish
from tests.e2e.navigation import follow
from tests.e2e.states import long
from tests.e2e.world import ArtifactFiles, World
from tests.integration.routes.admin_table import DECLARED
from tests.integration.routes.conf import address
from versiontree.tree.models import Hplm, Version

FRAME = "#nav-sidebar"
"""What stands beside every page, and is looked at beside the first."""
SPANS = (
    TracedSpan("retrieval", 7, "retrieve", 0.0, 5.0),
    TracedSpan("adapters", 7, "layer 0 of", 1.0, 2.0),
    TracedSpan("compute", 7, "compute", 5.0, 15.0),
    TracedSpan("retrieval", 8, "retrieve", 6.0, 4.0),
    TracedSpan("compute", 8, "compute", 20.5, 14.0),
)
"""Two batches in the pipeline of a worker."""
WITH_MUCH = ("tenant", "user", "dataset", "root", "domain", "hplm", "version", "job")
"""Kinds of rows with pages of their own making."""


def pages(page: Page, enter: Enter, world: World, files: ArtifactFiles, redis: Redis) -> Iterator[str]:
    """Each in turn."""
    enter(world.admin)
    page.goto(reverse("admin:index"))
    page.get_by_role("heading", name="Serving").wait_for()
    yield "admin-nothing-runs"
    furnish(world, files)
    _workers(redis, world)
    for path in [*_without_parameters(), *_of_rows(world)]:
        page.goto(path)
        yield path.strip("/").replace("/", "-")
    page.goto(_page(world.hplm.hplm, "change"))
    follow(page.get_by_role("button", name="Delete", exact=True))
    page.get_by_label("to confirm").fill("something else")
    follow(page.get_by_role("button", name="Delete"))
    yield "admin-name-asked-for"
    yield from _of_long_names(page, world)
    page.goto(_page(world.tenant, "change"))
    follow(page.get_by_role("button", name="Open as this tenant"))
    yield "admin-read-only-view"
    follow(page.get_by_role("button", name="Leave"))
    page.goto("/api/docs/")
    page.locator(".opblock").first.wait_for()
    yield "api-docs"


def _of_long_names(page: Page, world: World) -> Iterator[str]:
    """Lists and pages of rows in which everything is called as it hardly fits."""
    made = long.build(world)
    for row in (made.tenant, Hplm.unscoped.get(name=long.SLUG), made.failed):
        page.goto(reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_changelist"))
        yield f"admin-long-{row._meta.model_name}s"
        page.goto(_page(row, "change"))
        yield f"admin-long-{row._meta.model_name}"


def _workers(redis: Redis, world: World) -> None:
    """Two workers, of which one is drained."""
    digest = Version.unscoped.get(pk=world.root.pk).digest
    levels = Levels(7241, 420, 121, 260, 61, 75)
    recently = Recently(312.4, 2210, 12.4, 40.0, 81.5, spans=SPANS, levels=levels)
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
            generated=RecentlyGenerated(41, 212.5, 180.0, 640.0),
            decoders=(DecoderStatus("smollm2", 12, 3, 40_000, 16, 900, 2_100, 1_250_000, 7, 18_420),),
        )
        Heartbeat(redis, name, status.encode, life_s=3600).beat()


def _without_parameters() -> list[str]:
    shown = [route for route, methods in DECLARED.items() if methods["GET"].admin == HTTPStatus.OK]
    pieces = ("jsi18n/", "search/", "live/")
    return [address(route, {}) for route in shown if "<" not in route and not route.endswith(pieces)]


def _of_rows(world: World) -> list[str]:
    """A row of each of these kinds; of what goes with much and of what stays, what is said before it is
    deleted."""
    models = [model for model in admin.site._registry if model._meta.model_name in WITH_MUCH]
    rows = [model._base_manager.order_by("pk").first() for model in models]
    asked = [(world.viewer, "delete"), (world.dataset, "delete")]
    return [_page(row, "change") for row in rows if row is not None] + [_page(*one) for one in asked]


def _page(row: Model | Any, which: str) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{which}", args=[row.pk])
