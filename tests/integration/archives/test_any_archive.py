"""Whatever happens to an archive on its way, it imports with the same digests or leaves nothing."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings

from tenants.errors import ErrorCode, HmiError
from tests.integration.archives.conftest import zipped
from tests.integration.archives.site import Site, everything, store
from tests.unit.versiontree.forging import members_of
from tests.unit.versiontree.mutations import mutations
from versiontree.models import Version, VersionArtifact
from versiontree.services.import_ import version_import

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]


@pytest.fixture
def archive(site: Site, another_site: Any) -> tuple[bytes, set[tuple[str, str]]]:
    """An hPLM with its branch, and (kind, digest) of its artifacts; nothing of it is here."""
    links = VersionArtifact.unscoped.select_related("artifact")
    digests = {(link.role, link.artifact.digest) for link in links}
    content = zipped(site.hplm, branch=True)
    another_site()
    return content, digests


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutate=mutations)
def test_an_import_is_all_or_nothing(
    mutate: Any, site: Site, archive: tuple[bytes, set[tuple[str, str]]], tmp_path: Path
) -> None:
    content, digests = archive
    changed = mutate(members_of(content))
    before = everything(tmp_path)
    try:
        with transaction.atomic():
            version_import(archive=io.BytesIO(changed), tenant=site.globex.tenant, actor=None)
            links = VersionArtifact.unscoped.select_related("artifact")
            assert {(link.role, link.artifact.digest) for link in links} == digests
            for kind, digest in digests:
                store().verify(kind, digest)
            assert Version.unscoped.filter(state="ready").count() == 3
            transaction.set_rollback(True)
        empty_store()
    except HmiError as error:
        if error.code not in {ErrorCode.INVALID_ARCHIVE, ErrorCode.FILE_TOO_LARGE}:
            raise
    assert everything(tmp_path) == before


def empty_store() -> None:
    """As before an import."""
    for path in sorted(store().root.rglob("*"), reverse=True):
        if path.is_dir() and path.name != ".incoming":
            path.rmdir()
        elif path.is_file():
            path.unlink()
