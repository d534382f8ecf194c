"""What jobs really write can be taken elsewhere: all their files are known, and all they report is taken."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from frontend.presenters.version_page import version_url
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.really_made import compacted_table, really_made
from tests.integration.versiontree.transfer.site import Models, Site, artifacts_of, branch_of, predictions
from versiontree.transfer.archive.layout import ALLOWED_FILES
from versiontree.transfer.services.version_import import version_import

pytestmark = pytest.mark.slow

HEAD = {"lm_head.safetensors"}
FULL = {"full.safetensors"}
"""Only domains have them: a root's own are in the root."""
POOLER = {"pooler.safetensors"}
"""Only checkpoints that are complete have one; this one is a language model."""


@pytest.fixture(scope="module", params=[True, False], ids=["head of the checkpoint", "head of the domain"])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Models:
    return really_made(tmp_path_factory.mktemp("really-made"), lm_head=request.param)


@pytest.mark.django_db
def test_a_branch_grows_elsewhere_with_the_same_digests_and_answers(
    site: Site, another_site: Callable[[], None], client: Client
) -> None:
    archive, said, held = zipped(site.hplm, branch=True), predictions(site.hplm), artifacts_of(site.hplm)
    made = [(step.digest, step.metrics) for step in branch_of(site.hplm)]
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    assert [(step.digest, step.metrics) for step in branch_of(version)] == made
    assert artifacts_of(version) == held
    assert predictions(version) == said
    client.force_login(site.globex.owner)
    for step in branch_of(version):
        assert client.get(version_url(site.globex.tenant, step)).status_code == 200


def test_the_files_of_artifacts_are_those_that_jobs_write(models: Models, tmp_path: Path) -> None:
    of_root, of_domain = files_of(models.root["root"]), files_of(models.domain["lower"])
    assert of_root | HEAD | POOLER == ALLOWED_FILES["root"]
    assert of_domain | HEAD == ALLOWED_FILES["lower"]
    assert files_of(models.root["lower"]) == ALLOWED_FILES["lower"] - HEAD - FULL
    assert of_root >= HEAD or of_domain >= HEAD
    assert not of_root & of_domain & HEAD
    assert files_of(models.hplm["hplm"]) == ALLOWED_FILES["hplm"]
    for plot in (models.root["plot"], models.domain["plot"], compacted_table(models, tmp_path)):
        assert files_of(plot) == ALLOWED_FILES["plot"]


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
