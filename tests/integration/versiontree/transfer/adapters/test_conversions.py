"""Exports as adapters start one process of a tenant at a time, and none for what was made before."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from redis import Redis

from inference.artifact_check import run_request
from tenants.audit.models import AuditEvent
from tests.integration.versiontree.callers import V1, body_of, error, with_key
from tests.integration.versiontree.transfer.site import Models, Site, make_site, store
from tests.unit.versiontree.forging import members_of
from versiontree.jobs.services.lease_recovery import WORKSPACE_MAX_AGE_S, leases_recover
from versiontree.transfer.archive import conversion_cache as conversions
from versiontree.transfer.archive import sandboxed_check
from versiontree.transfer.archive.import_lock import MAX_CONCURRENT, LockPurpose, import_lock
from versiontree.tree.models import Version

FORM = "adapterhub"


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Conversions in this process; of each, whether its thread had a connection to the database meanwhile."""
    found: list[bool] = []

    def answer(wanted: Any) -> dict[str, Any]:
        found.append(connection.connection is not None)
        return run_request(asdict(wanted))

    monkeypatch.setattr(sandboxed_check, "sandbox_response", answer)
    return found


@pytest.fixture
def committed(
    transactional_db: None, redis_client: Redis, models: Models, artifact_root: Path, tmp_path: Path
) -> Site:
    """A site that other connections see."""
    return make_site(models, tmp_path)


def address(version: Version, form: str = FORM) -> str:
    return f"{V1}/versions/{version.pk}/export?format={form}"


def taken(site: Site, form: str = FORM) -> Any:
    return with_key(site.acme, "manage").get(address(site.hplm, form))


@pytest.mark.django_db
def test_second_export_of_a_tenant_and_third_of_a_machine_are_refused(
    site: Site, tries: list[bool], client: Client
) -> None:
    client.force_login(site.acme.developer)
    page = f"{reverse('frontend:version_export', args=['acme', site.hplm.pk])}?format={FORM}"
    with import_lock(LockPurpose.CONVERSION, site.acme.tenant):
        assert error(taken(site))[:2] == (429, "queue_full")
        assert client.get(page).status_code == 429
    with all_turns():
        assert error(taken(site))[:2] == (429, "queue_full")
    assert tries == []
    with (
        import_lock(LockPurpose.CONVERSION, site.globex.tenant),
        import_lock(LockPurpose.IMPORT, site.acme.tenant),
    ):
        assert members_of(body_of(taken(site)))


@contextmanager
def all_turns() -> Iterator[None]:
    """Held by other tenants."""
    tenants = [type("Other", (), {"pk": 10**6 + number})() for number in range(MAX_CONCURRENT)]
    with import_lock(LockPurpose.CONVERSION, tenants[0]), import_lock(LockPurpose.CONVERSION, tenants[1]):
        yield


@pytest.mark.django_db
def test_repeated_export_is_cached(site: Site, tries: list[bool]) -> None:
    first = body_of(taken(site))
    with all_turns():
        assert body_of(taken(site)) == first
    assert len(tries) == 1
    assert AuditEvent.unscoped.filter(verb="version.export").count() == 2


@pytest.mark.django_db
def test_refused_export_is_cached(site: Site, tries: list[bool]) -> None:
    refusals = [taken(site, form) for form in ("peft", "adapterhub") * 2]
    told = [answer.json() for answer in refusals if answer.status_code == 422]
    assert len(told) == 2
    assert told[0]["error"]["message"] == told[1]["error"]["message"]
    assert len(tries) == 2


@pytest.mark.django_db
def test_cached_export_belongs_to_its_version_and_expires_by_age_and_size(
    site: Site, tries: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = store().root / ".incoming"
    body_of(taken(site))
    Version.unscoped.filter(pk=site.hplm.pk).update(metrics={})  # another model card
    body_of(taken(site))
    assert (len(tries), len(list(kept.iterdir()))) == (2, 2)
    for folder in kept.iterdir():
        for path in (*folder.iterdir(), folder):
            os.utime(path, (0, time.time() - WORKSPACE_MAX_AGE_S - 60))
    body_of(taken(site))
    leases_recover()
    assert len(list(kept.iterdir())) == 1
    monkeypatch.setattr(conversions, "MAX_BYTES", 1)
    Version.unscoped.filter(pk=site.hplm.pk).update(metrics={"evaluate": {"value": 0.5, "metric": "f1"}})
    body_of(taken(site))
    assert len(list(kept.iterdir())) == 1
    sizes = sum(file.stat().st_size for file in kept.rglob("*.zip"))
    monkeypatch.setattr(conversions, "MAX_BYTES", sizes + 1000)
    body_of(taken(site))
    assert len(list(kept.iterdir())) == 1


@pytest.mark.django_db(transaction=True)
def test_no_connection_to_the_database_is_held_meanwhile(committed: Site, tries: list[bool]) -> None:
    body_of(taken(committed))
    assert tries == [False]
