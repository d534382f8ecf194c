"""Rows below the row that they belong to, a page at a time."""

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Enter
from tests.e2e.world import World
from versiontree.tree.models import Version


def test_older_versions_are_reached_by_keyboard(page: Page, enter: Enter, world: World) -> None:
    like = Version.unscoped.get(pk=world.hplm.pk)
    Version.unscoped.bulk_create(
        Version(
            kind="model",
            tenant=like.tenant,
            root=like.root,
            hplm=like.hplm,
            parent=like.parent,
            number=number,
            state="ready",
            digest=like.digest,
            ready_at=like.ready_at,
        )
        for number in range(2, 61)
    )
    enter(world.admin)
    page.goto(f"/admin/tree/hplm/{like.hplm_id}/change/")
    for number, there in (("2", 35), ("3", 10), ("1", 36)):
        page.locator("#versions-data").get_by_role("link", name=number, exact=True).press("Enter")
        expect(page.get_by_role("link", name=f"acme/triage:{there}", exact=True)).to_be_visible()
