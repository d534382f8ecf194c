"""Two sites, one after the other, and archives that went from the first to the second."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.integration.versiontree.transfer.site import Models, Site, forget_tree, make_models, make_site
from versiontree.transfer.services.version_export import version_export
from versiontree.tree.models import Version


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests look into the tables of two sites and all of their tenants."""


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def site(db: None, models: Models, artifact_root: Path, tmp_path: Path) -> Site:
    return make_site(models, tmp_path)


@pytest.fixture
def another_site(site: Site, tmp_path: Path, settings: Settings) -> Callable[[], None]:
    """Call it to be at a site that has the same tenants, but no version and an empty store."""

    def move() -> None:
        forget_tree()
        settings.HMI_ARTIFACT_ROOT = tmp_path / "elsewhere"
        settings.HMI_ARTIFACT_ROOT.mkdir()

    return move


def zipped(version: Version, *, branch: bool = False) -> bytes:
    """The version as a zip file."""
    out = io.BytesIO()
    version_export(version=version, out=out, actor=None, branch=branch)
    return out.getvalue()
