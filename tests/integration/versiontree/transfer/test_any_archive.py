"""Whatever happens to an archive on its way, it imports with the same digests or leaves nothing."""

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings

from frontend.presenters.version_page import version_url
from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Site, branch_of, everything, store
from tests.unit.versiontree.forging import members_of
from tests.unit.versiontree.mutations import json_changed, mutations
from versiontree.transfer.archive.reader import archive_open
from versiontree.transfer.services.import_plan import Stored, import_apply, import_plan
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import Version, VersionArtifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]


@pytest.fixture
def archive(site: Site, another_site: Any) -> tuple[bytes, set[tuple[str, str]]]:
    """A model with its branch, and (kind, digest) of its artifacts; nothing of it is here."""
    links = VersionArtifact.unscoped.select_related("artifact")
    digests = {(link.role, link.artifact.digest) for link in links}
    content = zipped(site.hplm, branch=True)
    another_site()
    return content, digests


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutate=mutations)
def test_import_of_a_changed_archive_is_complete_or_leaves_nothing(
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


@pytest.fixture
def stored(site: Site, archive: tuple[bytes, set[tuple[str, str]]]) -> Stored:
    """The artifacts of the archive are in the store."""
    models = (site.models.root, site.models.domain, site.models.hplm)
    made = [store().ingest(role, folder) for folders in models for role, folder in folders.items()]
    return {(artifact.kind, artifact.digest): artifact for artifact in made}


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutate=json_changed("config.json"))
def test_pages_of_an_import_with_changed_config_render(
    mutate: Any, site: Site, archive: tuple[bytes, set[tuple[str, str]]], stored: Stored, client: Client
) -> None:
    """The artifacts stay the same, so they are not tried and stored anew: what is said of them is planted."""
    tenant = site.globex.tenant
    client.force_login(site.globex.owner)
    changed = io.BytesIO(mutate(members_of(archive[0])))
    with suppress(HmiError), archive_open(changed, max_bytes=10**9) as opened, transaction.atomic():
        plan = import_plan(opened.contents, tenant=tenant, parent=None)
        version = import_apply(plan, stored=stored, tenant=tenant, actor=None, name=None)
        for page in pages_of(branch_of(version)):
            assert client.get(page).status_code == 200, page
        transaction.set_rollback(True)


def pages_of(branch: Sequence[Version]) -> list[str]:
    """Where the tenant of a model sees it and what it stands on."""
    hplm, domain, _ = branch
    assert hplm.tenant is not None
    named = {"model": hplm.name, "domain": domain.domain_id, "tree": None}
    lists = [
        reverse(f"frontend:{view}", args=[hplm.tenant.slug, *([key] if key else [])])
        for view, key in named.items()
    ]
    return [*lists, *(version_url(hplm.tenant, step) for step in branch)]


def empty_store() -> None:
    """As before an import."""
    for path in sorted(store().root.rglob("*"), reverse=True):
        if path.is_dir() and path.name != ".incoming":
            path.rmdir()
        elif path.is_file():
            path.unlink()
