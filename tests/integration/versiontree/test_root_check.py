"""A checkpoint is checked before it is registered: by the API and in the administration."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from inference.api.admission import close_gateway
from tenants.accounts.models import User
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import plain
from tests.integration.versiontree.callers import V1, error, signed_in
from tests.integration.versiontree.refusals import rows_of_all
from tests.unit.tiny import tiny_checkpoint
from versiontree.artifact_store import ArtifactStore
from versiontree.job_settings import conversion_cost
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.services.lifecycle import job_succeed
from versiontree.tree.models import Root, Version
from versiontree.tree.services.roots import root_register

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]

CHECK = f"{V1}/platform/estimate/root"


@pytest.fixture
def boss(db: None, client: Client) -> Iterator[Client]:
    client.force_login(User.objects.create_superuser("boss"))
    yield client
    close_gateway()  # the first page asks the queue


@pytest.fixture
def body(tmp_path: Path, db: None) -> dict[str, Any]:
    """What registers a tiny checkpoint."""
    source = tiny_checkpoint(tmp_path / "tiny", layers=4, hidden=32)
    return {"name": "tiny", "source": str(source), "corpus": tree_factory.corpus(None, "prose").pk}


def convert_in(seconds: float, **tokens: int) -> None:
    """A conversion of a checkpoint of 6 layers of 384 that took so long, with these tokens."""
    text = tree_factory.corpus(None, f"prose-{seconds}")
    source = tree_factory.checkpoint(Path(settings.HMI_ARTIFACT_ROOT) / "ckpt")
    version = root_register(name=f"past-{seconds:.0f}", source=source, corpus=text, actor=None)
    job = Job.unscoped.get(version=version, kind=JobKind.CONVERT)
    worker = tree_factory.claim(job)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    with store.workspace("root") as folder:
        shape = {"architecture": {"layers": 6, "hidden": 384}, "took": seconds}
        (folder / "root.json").write_text(json.dumps(shape))
        made = store.ingest("root", folder)
    lower = tree_factory.stored("lower")
    job_succeed(
        job_id=job.pk,
        worker=worker,
        metrics={"settings": tokens},
        artifacts=[("root", made), ("lower", lower)],
    )
    Job.unscoped.filter(pk=job.pk).update(started_at=F("finished_at") - timedelta(seconds=seconds))
    tree_factory.do_jobs(Version.unscoped.get(pk=version.pk))


def test_the_check_tells_what_the_checkpoint_is_and_takes_and_creates_nothing(
    staff: APIClient, body: dict[str, Any]
) -> None:
    before = rows_of_all()
    answer = staff.post(CHECK, body, format="json")
    assert answer.status_code == 200, answer.content
    report, estimate = answer.json()["report"], answer.json()["estimate"]
    assert (report["family"], report["layers"], report["hidden"]) == ("bert", 4, 32)
    assert report["problems"] == []
    assert estimate["lower_layers"] == 2
    assert estimate["upper_bytes"] + estimate["lower_bytes"] == 2 * report["parameters"]
    assert estimate["table_bytes"] == 2 * 3 * 32 * report["vocabulary"]
    assert estimate["seconds"]["low"] > 0
    assert estimate["past_jobs"] == 0
    assert rows_of_all() == before
    assert body["source"] not in answer.content.decode()


def test_the_time_is_that_of_past_conversions_scaled_by_their_tokens(
    staff: APIClient, body: dict[str, Any]
) -> None:
    convert_in(100.0, distil_tokens=700_000, mixer_tokens=150_000)
    convert_in(70.0, distil_tokens=350_000, mixer_tokens=150_000)
    convert_in(9999.0, distil_tokens=0, mixer_tokens=0)
    settings = {"settings": {"distil_tokens": 0}}
    full, less = (
        staff.post(CHECK, {**body, **more}, format="json").json()["estimate"] for more in ({}, settings)
    )
    assert full["past_jobs"] == 2
    assert full["seconds"]["likely"] == pytest.approx(100.0 * conversion_cost(4, 32))
    assert less["seconds"]["likely"] == pytest.approx(40.0 * conversion_cost(4, 32))


def test_a_root_that_is_served_as_it_is_takes_no_time_and_no_table(
    staff: APIClient, body: dict[str, Any]
) -> None:
    converted = staff.post(CHECK, body, format="json").json()["estimate"]
    fields = {name: value for name, value in body.items() if name != "corpus"}
    answer = staff.post(CHECK, {**fields, "convert": False}, format="json")
    assert answer.status_code == 200, answer.content
    estimate = answer.json()["estimate"]
    assert (estimate["seconds"], estimate["table_bytes"]) == (None, 0)
    assert 0 < estimate["disk_bytes"] < converted["disk_bytes"]


def test_problems_are_listed_at_once_and_registering_is_refused_with_all_of_them(
    staff: APIClient, body: dict[str, Any]
) -> None:
    config = Path(body["source"]) / "config.json"
    changes = {"vocab_size": 9, "rope_scaling": {"rope_type": "yarn"}}
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    checked = staff.post(CHECK, body, format="json").json()
    assert checked["estimate"] is None
    said = [problem["message"] for problem in checked["report"]["problems"]]
    assert len(said) == 2
    refused = staff.post(f"{V1}/platform/roots", body, format="json")
    assert error(refused) == (422, "unsupported_checkpoint", "source")
    assert refused.json()["error"]["message"] == " ".join(said)
    assert not Root.objects.exists()


def test_other_fields_fail_as_registering_would(
    staff: APIClient, body: dict[str, Any], tmp_path: Path
) -> None:
    assert error(staff.post(CHECK, {**body, "name": "../x"}, format="json"))[2] == "name"
    assert error(staff.post(CHECK, {**body, "corpus": 999}, format="json"))[2] == "corpus"
    gone = {**body, "source": str(tmp_path / "gone")}
    assert error(staff.post(CHECK, gone, format="json"))[1] == "checkpoint_not_found"
    hub = staff.post(CHECK, {**body, "source": "a/b"}, format="json").json()
    assert hub["estimate"] is None
    assert "downloaded" in hub["report"]["notes"][0]
    member = signed_in(User.objects.create_user("member"))
    assert member.post(CHECK, body, format="json").status_code in (403, 404)


def test_the_page_shows_the_check_above_the_form_before_anything_is_registered(
    boss: Client, body: dict[str, Any]
) -> None:
    form = {**body, "kind": "encoder", "license": "mit", "source_url": "", "lower_layers": ""}
    address = reverse("admin:tree_root_add")
    assert "Check of the checkpoint" not in boss.get(address).content.decode()
    checked = boss.post(address, {**form, "_check": "1"})
    page = checked.content.decode()
    assert checked.status_code == 200
    for shown in ("This checkpoint can be registered", '<dt>Hidden size</dt><dd dir="auto">32', "roughly"):
        assert shown in page
    assert not Root.objects.exists()
    assert 'value="mit"' in page
    assert boss.post(address, {**form, "_save": "1"}).status_code == 302
    assert Root.objects.get().name == "tiny"


def test_the_page_checks_a_root_that_is_served_as_it_is(boss: Client, body: dict[str, Any]) -> None:
    form = {"name": "tiny", "source": body["source"], "kind": "encoder", "as_it_is": "on", "_check": "1"}
    page = boss.post(reverse("admin:tree_root_add"), form).content.decode()
    assert "This checkpoint can be registered" in page
    assert "<dt>Conversion</dt>" not in page


def test_the_page_shows_the_problems_of_a_checkpoint_and_the_errors_of_other_fields(
    boss: Client, body: dict[str, Any]
) -> None:
    (Path(body["source"]) / "tokenizer.json").unlink()
    form = {**body, "kind": "encoder", "_check": "1"}
    text = plain(boss.post(reverse("admin:tree_root_add"), form))
    assert "This checkpoint is not supported" in text
    assert "holds no tokenizer.json" in text
    tree_factory.ready_root(Path(body["source"]).parent, "tiny-2")
    taken = plain(boss.post(reverse("admin:tree_root_add"), {**form, "name": "", "source": "a/b"}))
    assert "This field is required" in taken
    assert "Check of the checkpoint" not in taken
