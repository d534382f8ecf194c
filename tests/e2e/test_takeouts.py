"""A copy of everything that a tenant has."""

import io
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from tests.background import run_background
from tests.e2e.world import World
from versiontree.transfer.models import Takeout


@pytest.fixture
def exports(settings: Settings, tmp_path: Path) -> None:
    """A folder of their own for take-outs."""
    settings.HMI_EXPORT_ROOT = tmp_path / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()


def test_all_data_is_taken_out_in_one_file_that_comes_without_a_reload(
    signed_in: Page, world: World, exports: None
) -> None:
    page = signed_in
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_text("The export starts in a moment.")).to_be_visible()
    run_background(Takeout.unscoped.get(tenant=world.tenant).pk)
    download = page.get_by_role("link", name="Download")
    expect(download).to_be_visible()
    with page.expect_download() as coming:
        download.click()
    with ZipFile(io.BytesIO(coming.value.path().read_bytes())) as archive:
        assert archive.testzip() is None
        assert {"usage.csv", "audit.csv"} <= {Path(name).name for name in archive.namelist()}
    expect(page.get_by_role("button", name="Export")).to_be_visible()
