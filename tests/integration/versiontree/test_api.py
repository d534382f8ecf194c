"""The manage API of tenants and of the platform."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from rest_framework.test import APIClient

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, signed_in, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_the_life_of_an_hplm_over_http(domain: Version, acme: TenantFixture, key: APIClient) -> None:
    body = {"name": "spam", "parent": domain.pk, "dataset": acme.dataset.pk, "settings": {"epochs": 2}}
    body["quick"] = False
    made = key.post(f"{V1}/models", body)
    assert made.status_code == 201, made.content
    version = made.json()
    assert (version["state"], version["name"], version["parent"]) == ("building", "spam", domain.pk)
    assert [(job["kind"], job["state"]) for job in version["jobs"]] == [
        ("fine_tune", "queued"),
        ("evaluate", "waiting"),
    ]
    tree_factory.do_jobs(Version.unscoped.get(pk=version["id"]))
    ready = key.get(f"{V1}/versions/{version['id']}").json()
    assert (ready["state"], ready["metrics"]["evaluate"]) == ("ready", {"done": 1})
    again = key.post(f"{V1}/models/spam/versions", {"dataset": acme.dataset.pk, "auto_promote": False})
    tree_factory.do_jobs(Version.unscoped.get(pk=again.json()["id"]))
    assert key.get(f"{V1}/models/spam").json()["aliases"][0]["version"] == 1
    moved = key.put(f"{V1}/models/spam/aliases/default", {"version": 2, "reason": "better"})
    assert (moved.status_code, moved.json()["version"]) == (200, 2)
    moves = key.get(f"{V1}/models/spam/alias-moves").json()["results"]
    assert [(move["from_version"], move["to_version"]) for move in moves] == [(1, 2), (None, 1)]
    assert [row["number"] for row in key.get(f"{V1}/models/spam/versions").json()["results"]] == [2, 1]
    assert error(key.delete(f"{V1}/models/spam/aliases/default")) == (409, "conflict", "alias")
    key.put(f"{V1}/models/spam/aliases/live", {"version": 1})
    assert key.delete(f"{V1}/models/spam/aliases/live").status_code == 204
    assert error(key.get(f"{V1}/models/spam/aliases/live"))[0] == 404
    assert key.delete(f"{V1}/models/spam").status_code == 204
    assert error(key.get(f"{V1}/models/spam")) == (404, "not_found", None)


def test_deletion_of_data_in_use_is_refused_with_its_dependents(
    model: Version, domain: Version, acme: TenantFixture, key: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, after = tree_factory.jobs_in_order(tree_factory.new_hplm(domain, "busy", acme))
    law = tree_factory.ready_domain(domain, "law", home=acme)
    told: dict[str, set[tuple[str, Any]]] = {
        "models/busy": {("job", str(one.pk)) for one in (job, after)},
        f"datasets/{acme.dataset.pk}": {("version", model.pk), ("version", job.version_id)},
        f"corpora/{acme.corpus.pk}": {("version", law.pk)},
    }
    for path, dependents in told.items():
        refused = key.delete(f"{V1}/{path}")
        assert error(refused)[:2] == (409, "has_dependents"), path
        assert refused["x-should-retry"] == "false"
        details = refused.json()["error"]["details"]
        assert details["count"] == len(dependents)
        assert {(one["type"], one["id"]) for one in details["dependents"]} == dependents, path
        assert key.get(f"{V1}/{path}").status_code == 200
    monkeypatch.setattr("tenants.base.errors.MAX_DEPENDENTS_LISTED", 1)
    details = key.delete(f"{V1}/datasets/{acme.dataset.pk}").json()["error"]["details"]
    assert (details["count"], len(details["dependents"])) == (2, 1)


def test_the_life_of_a_domain_over_http(root: Version, acme: TenantFixture, key: APIClient) -> None:
    body = {"name": "law", "parent": root.pk, "corpus": acme.corpus.pk, "alpha": 30, "vectors": "int8"}
    made = key.post(f"{V1}/domains", body)
    assert made.status_code == 201, made.content
    tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))
    domain = key.get(f"{V1}/domains").json()["results"][0]
    assert (domain["name"], domain["root"], domain["tenant"]) == ("law", "bert", "acme")
    at = f"{V1}/domains/{domain['id']}"
    assert error(key.post(f"{at}/compact"))[:2] == (404, "not_found")
    again = key.post(f"{at}/versions", {"corpus": acme.corpus.pk})
    assert (again.status_code, again.json()["number"]) == (201, 2)
    assert (again.json()["config"]["alpha"], again.json()["config"]["vectors"]) == (30.0, "int8")
    tree_factory.do_jobs(Version.unscoped.get(pk=again.json()["id"]))
    compacted = key.post(f"{at}/compact")
    assert compacted.status_code == 201, compacted.content
    assert [job["kind"] for job in compacted.json()["jobs"]] == ["compact"]
    assert [row["number"] for row in key.get(f"{at}/versions").json()["results"]] == [3, 2, 1]
    assert key.get(at).json()["name"] == "law"


def test_a_job_is_watched_cancelled_and_retried_over_http(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    job = tree_factory.jobs_in_order(tree_factory.new_hplm(root, "spam", acme))[0]
    at = f"{V1}/jobs/{job.pk}"
    assert key.get(at).json()["state"] == "queued"
    assert key.post(f"{at}/cancel").json()["state"] == "cancelled"
    assert error(key.post(f"{at}/cancel")) == (409, "invalid_transition", None)
    assert key.post(f"{at}/retry").json()["state"] == "queued"
    events = key.get(f"{at}/events").json()
    assert [event["kind"] for event in events] == ["queued", "cancelled", "queued"]
    newer = key.get(f"{at}/events", {"after": events[1]["id"]}).json()
    assert newer == events[2:]
    assert [row["id"] for row in key.get(f"{V1}/jobs", {"state": "queued"}).json()["results"]] == [
        str(job.pk)
    ]
    assert error(key.get(f"{V1}/jobs", {"state": "lost"})) == (422, "invalid_field", "state")


def test_a_job_does_not_show_what_only_administrators_need(model: Version, key: APIClient) -> None:
    shown = key.get(f"{V1}/jobs").json()["results"][0]
    assert not {"traceback", "worker", "params"} & set(shown)
    root_version = Version.unscoped.get(kind="root")
    assert "source" not in key.get(f"{V1}/versions/{root_version.pk}").json()["config"]


def test_the_tree_comes_with_depths(root: Version, domain: Version, model: Version, key: APIClient) -> None:
    nodes = key.get(f"{V1}/tree").json()
    assert [(node["kind"], node["name"], node["depth"]) for node in nodes] == [
        ("root", "bert", 0),
        ("domain", "biomedicine", 1),
        ("model", "spam", 2),
    ]
    assert [row["name"] for row in key.get(f"{V1}/roots").json()["results"]] == ["bert"]


def test_a_member_names_the_tenant(root: Version, acme: TenantFixture) -> None:
    client = signed_in(acme.developer)
    body = {"name": "spam", "parent": root.pk, "dataset": acme.dataset.pk}
    assert error(client.post(f"{V1}/models", body)) == (422, "missing_field", "tenant")
    assert client.post(f"{V1}/tenants/acme/models", body).status_code == 201
    assert len(client.get(f"{V1}/models", {"tenant": "acme"}).json()["results"]) == 1


WRITES = (
    ("post", "models"),
    ("post", "models/spam/versions"),
    ("delete", "models/spam"),
    ("put", "models/spam/aliases/default"),
    ("post", "domains"),
    ("post", "domains/1/versions"),
    ("post", f"jobs/{UUID(int=1)}/cancel"),
)


def test_key_with_scope_infer_manages_nothing(acme: TenantFixture) -> None:
    key = with_key(acme, "infer")
    for method, address in WRITES:
        refused = getattr(key, method)(f"{V1}/{address}", {})
        assert error(refused)[:2] == (403, "forbidden"), (method, address)


def test_a_tenant_does_not_touch_the_platforms_jobs_and_domains(
    domain: Version, acme: TenantFixture, key: APIClient
) -> None:
    job = tree_factory.jobs_in_order(domain)[0]
    assert error(key.get(f"{V1}/jobs/{job.pk}"))[:2] == (404, "not_found")
    assert error(key.post(f"{V1}/jobs/{job.pk}/cancel"))[:2] == (404, "not_found")
    more = key.post(f"{V1}/domains/{domain.domain_id}/versions", {"corpus": acme.corpus.pk})
    assert error(more)[:2] == (404, "not_found")
    assert key.get(f"{V1}/domains/{domain.domain_id}").status_code == 200


def test_staff_look_after_the_platforms_tree(staff: APIClient, tmp_path: Path) -> None:
    prose = tree_factory.corpus(None, "prose")
    source = tree_factory.checkpoint(tmp_path / "ckpt")
    made = staff.post(f"{V1}/platform/roots", {"name": "bert", "source": source, "corpus": prose.pk})
    assert made.status_code == 201, made.content
    root = tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))
    body = {"name": "medicine", "parent": root.pk, "corpus": prose.pk}
    domain = staff.post(f"{V1}/platform/domains", body)
    assert (domain.status_code, domain.json()["tenant"]) == (201, None)
    tree_factory.do_jobs(Version.unscoped.get(pk=domain.json()["id"]))
    listed = staff.get(f"{V1}/platform/domains").json()["results"][0]["id"]
    again = staff.post(f"{V1}/platform/domains/{listed}/versions", {"corpus": prose.pk})
    job = again.json()["jobs"][0]["id"]
    assert staff.get(f"{V1}/platform/jobs/{job}").json()["version_name"] == "medicine"
    assert staff.post(f"{V1}/platform/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert staff.post(f"{V1}/platform/jobs/{job}/retry").json()["state"] == "queued"
    assert len(staff.get(f"{V1}/platform/jobs/{job}/events").json()) == 3
    assert len(staff.get(f"{V1}/platform/jobs").json()["results"]) == 6
