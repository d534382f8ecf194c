"""What the pages of owners and of the administration do, over the API."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.datasets.models import Corpus
from tests.background import run_background
from tests.e2e.world import World, world_build
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.services.control import PRIORITIES, job_cancel
from versiontree.tree.models import Domain, Hplm
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.hplms import hplm_create

V1 = "/api/v1"


@pytest.fixture
def world(db: None, redis_client: Any, artifact_root: Path, upload_root: Path, settings: Any) -> World:
    settings.HMI_EXPORT_ROOT = artifact_root.parent / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()
    return world_build()


def signed_in(user: Any) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def test_an_owner_takes_all_data_out(world: World) -> None:
    owner, takeouts = signed_in(world.owner), f"{V1}/tenants/acme/takeouts"
    made = owner.post(takeouts)
    assert (made.status_code, made.json()["state"]) == (201, "waiting")
    one = f"{takeouts}/{made.json()['id']}"
    assert owner.get(f"{one}/file").status_code == 404
    assert owner.post(takeouts).json()["error"]["code"] == "conflict"
    run_background(made.json()["id"])
    ready = owner.get(one).json()
    assert (ready["state"], owner.get(takeouts).json()["results"]) == ("ready", [ready])
    fetched = owner.get(f"{one}/file", headers={"Accept": "application/zip"})
    content = b"".join(fetched.streaming_content)  # type: ignore[attr-defined]
    assert len(content) == ready["size_bytes"]
    assert "tenant.json" in zipfile.ZipFile(io.BytesIO(content)).namelist()
    for other in (world.developer, world.stranger):
        assert signed_in(other).get(f"{one}/file").status_code in {403, 404}


def test_staff_publish_and_retire_a_domain(world: World) -> None:
    staff, domain = signed_in(world.admin), world.domain.domain
    assert domain is not None
    Domain.unscoped.filter(pk=domain.pk).update(published_at=None)
    seen = f"{V1}/tenants/acme/domains/{domain.pk}"
    assert signed_in(world.owner).get(seen).status_code == 404
    assert staff.post(f"{V1}/platform/domains/{domain.pk}/publish").json()["name"] == domain.name
    assert signed_in(world.owner).get(seen).status_code == 200
    job, after = jobs_in_order(
        domain_update(domain=domain, corpus=Corpus.unscoped.get(tenant=None), actor=None)
    )
    refused = staff.post(f"{V1}/platform/domains/{domain.pk}/retire")
    told = refused.json()["error"]
    assert (refused.status_code, told["code"], refused["x-should-retry"]) == (409, "has_dependents", "false")
    assert {one["id"] for one in told["details"]["dependents"]} == {str(job.pk), str(after.pk)}
    job_cancel(job=job, actor=None)
    assert staff.post(f"{V1}/platform/domains/{domain.pk}/retire").json() == {"retired": 1}
    again = staff.post(f"{V1}/platform/domains/{domain.pk}/retire")
    assert again.json()["error"]["code"] == "invalid_transition"


def test_staff_move_a_job_of_a_tenant_and_pin_its_hplm(world: World) -> None:
    staff, hplm = signed_in(world.admin), world.hplm.hplm
    assert hplm is not None
    late = hplm_create(
        tenant=world.tenant, name="late", parent=world.domain, dataset=world.dataset, actor=world.owner
    )
    job = jobs_in_order(late)[0]
    moved = staff.put(f"{V1}/platform/jobs/{job.pk}/priority", {"priority": "lowest"}, format="json")
    assert (moved.status_code, moved.json()["id"]) == (200, str(job.pk))
    job.refresh_from_db()
    assert job.priority == PRIORITIES["lowest"]
    refused = staff.put(f"{V1}/platform/jobs/{job.pk}/priority", {"priority": "soon"}, format="json")
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "priority")
    pin = f"{V1}/platform/tenants/acme/models/{hplm.name}/pin"
    for method, pinned in ((staff.put, True), (staff.put, True), (staff.delete, False)):
        assert method(pin).status_code == 204
        assert (Hplm.unscoped.get(pk=hplm.pk).pinned_at is not None) is pinned
    assert signed_in(world.owner).put(pin).status_code == 403
