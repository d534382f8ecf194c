"""The manage API: who may, what it takes, what it answers."""

import re
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, signed_in, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job
from versiontree.tree.models import Hplm, Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


@pytest.fixture
def key(acme: TenantFixture) -> APIClient:
    return with_key(acme, "manage")


@pytest.fixture
def model(domain: Version, acme: TenantFixture) -> Version:
    return tree_factory.ready_hplm(domain, "spam", acme)


def test_the_life_of_an_hplm_over_http(domain: Version, acme: TenantFixture, key: APIClient) -> None:
    body = {"name": "spam", "parent": domain.pk, "dataset": acme.dataset.pk, "settings": {"epochs": 2}}
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


def test_what_is_in_use_is_not_deleted_and_the_answer_lists_by_what(
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
    body = {"name": "law", "parent": root.pk, "corpus": acme.corpus.pk, "alpha": 30}
    made = key.post(f"{V1}/domains", body)
    assert made.status_code == 201, made.content
    tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))
    domain = key.get(f"{V1}/domains").json()["results"][0]
    assert (domain["name"], domain["root"], domain["tenant"]) == ("law", "bert", "acme")
    again = key.post(f"{V1}/domains/{domain['id']}/versions", {"corpus": acme.corpus.pk})
    assert (again.status_code, again.json()["number"], again.json()["config"]["alpha"]) == (201, 2, 30.0)
    assert again.json()["config"]["vectors"] == "float16"
    numbers = [row["number"] for row in key.get(f"{V1}/domains/{domain['id']}/versions").json()["results"]]
    assert numbers == [2, 1]
    assert key.get(f"{V1}/domains/{domain['id']}").json()["name"] == "law"


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


def test_a_large_tree_comes_in_parts_that_lead_to_each_other(
    root: Version, model: Version, key: APIClient
) -> None:
    whole = key.get(f"{V1}/tree")
    assert "Link" not in whole.headers
    found, address = [], f"{V1}/tree?limit=1"
    while address:
        part = key.get(address)
        found += part.json()
        more = re.search(r'<http://testserver([^>]+)>; rel="next"', part.headers.get("Link", ""))
        address = more[1] if more else ""
    assert found == whole.json()
    assert key.get(f"{V1}/tree", {"after": found[1]["id"]}).json() == found[2:]
    assert error(key.get(f"{V1}/tree", {"after": "x"})) == (422, "invalid_field", "after")
    assert error(key.get(f"{V1}/tree", {"limit": "0"})) == (422, "invalid_field", "limit")


def test_a_member_names_the_tenant(root: Version, acme: TenantFixture) -> None:
    client = signed_in(acme.developer)
    body = {"name": "spam", "parent": root.pk, "dataset": acme.dataset.pk}
    assert error(client.post(f"{V1}/models", body)) == (422, "missing_field", "tenant")
    assert client.post(f"{V1}/tenants/acme/models", body).status_code == 201
    assert len(client.get(f"{V1}/models", {"tenant": "acme"}).json()["results"]) == 1


ADDRESSES = [
    "domains/{domain}",
    "domains/{domain}/versions",
    "models/spam",
    "models/spam/versions",
    "models/spam/aliases",
    "models/spam/alias-moves",
    "versions/{version}",
    "jobs/{job}",
    "jobs/{job}/events",
]


@pytest.fixture
def private(root: Version, acme: TenantFixture) -> dict[str, Any]:
    """Ids of what only acme may see."""
    own = tree_factory.ready_domain(root, "secret", home=acme)
    model = tree_factory.ready_hplm(own, "spam", acme)
    job = Job.unscoped.filter(version=model).first()
    assert job is not None
    return {"domain": own.domain_id, "version": model.pk, "job": job.pk}


def test_a_stranger_gets_404_everywhere(
    private: dict[str, Any], globex: TenantFixture, staff: APIClient
) -> None:
    key, stranger = with_key(globex, "manage"), signed_in(globex.owner)
    for address in ADDRESSES:
        at = address.format(**private)
        assert error(key.get(f"{V1}/{at}"))[:2] == (404, "not_found"), at
        assert error(stranger.get(f"{V1}/tenants/acme/{at}"))[:2] == (404, "not_found"), at
        assert error(staff.get(f"{V1}/tenants/acme/{at}"))[:2] == (404, "not_found"), at


WRITES: dict[tuple[str, str], tuple[str, ...]] = {
    ("post", "models"): ("name", "parent", "dataset"),
    ("post", "models/spam/versions"): ("dataset",),
    ("delete", "models/spam"): (),
    ("put", "models/spam/aliases/default"): ("version",),
    ("delete", "models/spam/aliases/default"): (),
    ("post", "domains"): ("name", "parent", "corpus"),
    ("post", "domains/{domain}/versions"): ("corpus",),
    ("post", "jobs/{job}/cancel"): (),
    ("post", "jobs/{job}/retry"): (),
}


def test_a_stranger_writes_nothing(
    private: dict[str, Any], acme: TenantFixture, globex: TenantFixture
) -> None:
    ids = {"parent": private["version"], "corpus": acme.corpus.pk, "dataset": acme.dataset.pk}
    said = {"name": "mine", "version": 1, **ids}
    versions = Version.unscoped.count()
    key, stranger = with_key(globex, "manage"), signed_in(globex.owner)
    for (method, address), fields in WRITES.items():
        at, body = address.format(**private), {name: said[name] for name in fields}
        assert error(getattr(key, method)(f"{V1}/{at}", body))[:2] == (404, "not_found"), (method, at)
        theirs = getattr(stranger, method)(f"{V1}/tenants/acme/{at}", body)
        assert error(theirs)[:2] == (404, "not_found"), (method, at)
        assert Version.unscoped.count() == versions
        assert Hplm.objects.for_tenant(acme.tenant).filter(deleted_at=None).exists()


def test_a_viewer_and_a_key_for_inference_only_may_not_write(
    private: dict[str, Any], acme: TenantFixture
) -> None:
    viewer, key = signed_in(acme.viewer), with_key(acme, "infer")
    for method, address in WRITES:
        at = address.format(**private)
        refused = getattr(viewer, method)(f"{V1}/tenants/acme/{at}", {})
        assert error(refused)[:2] == (403, "forbidden"), (method, at)
        refused = getattr(key, method)(f"{V1}/{at}", {})
        assert error(refused)[:2] == (403, "forbidden"), (method, at)


def test_a_viewer_reads_and_nobody_does_not(private: dict[str, Any], acme: TenantFixture) -> None:
    viewer = signed_in(acme.viewer)
    for address in ADDRESSES:
        at = address.format(**private)
        assert viewer.get(f"{V1}/tenants/acme/{at}").status_code == 200, at
        assert error(APIClient().get(f"{V1}/tenants/acme/{at}"))[:2] == (401, "unauthenticated"), at


def test_a_tenant_does_not_touch_the_platforms_jobs_and_domains(
    domain: Version, acme: TenantFixture, key: APIClient
) -> None:
    job = tree_factory.jobs_in_order(domain)[0]
    assert error(key.get(f"{V1}/jobs/{job.pk}"))[:2] == (404, "not_found")
    assert error(key.post(f"{V1}/jobs/{job.pk}/cancel"))[:2] == (404, "not_found")
    more = key.post(f"{V1}/domains/{domain.domain_id}/versions", {"corpus": acme.corpus.pk})
    assert error(more)[:2] == (404, "not_found")
    assert key.get(f"{V1}/domains/{domain.domain_id}").status_code == 200


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({}, (422, "missing_field", "dataset")),
        ({"name": "x", "parent": "no", "dataset": 1}, (422, "invalid_field", "parent")),
        ({"name": "No Slug", "parent": 0, "dataset": 0}, (404, "not_found", "parent")),
        ([], (422, "invalid_field", None)),
    ],
)
def test_a_wrong_body_is_refused_with_its_place(
    body: Any, refusal: tuple[int, str, str | None], key: APIClient
) -> None:
    assert error(key.post(f"{V1}/models", body)) == refusal


def test_a_bad_setting_is_refused_with_its_place(root: Version, acme: TenantFixture, key: APIClient) -> None:
    body = {"name": "spam", "parent": root.pk, "dataset": acme.dataset.pk, "settings": {"epochs": "many"}}
    assert error(key.post(f"{V1}/models", body)) == (422, "invalid_field", "settings.epochs")
    body["settings"] = "many"
    assert error(key.post(f"{V1}/models", body)) == (422, "invalid_field", "settings")
    assert not Hplm.objects.for_tenant(acme.tenant).exists()


def test_ids_beyond_the_database_are_only_not_found(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    huge = 10**30
    assert error(key.get(f"{V1}/versions/{huge}"))[:2] == (404, "not_found")
    body = {"name": "spam", "parent": 2**63 - 1, "dataset": 1}
    assert error(key.post(f"{V1}/models", body))[:2] == (404, "not_found")
    assert error(key.post(f"{V1}/models", body | {"parent": huge})) == (422, "invalid_field", "parent")


def test_a_domain_is_updated_and_compacted_over_http(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    body = {"name": "law", "parent": root.pk, "corpus": acme.corpus.pk, "vectors": "int8"}
    made = key.post(f"{V1}/domains", body)
    assert (made.status_code, made.json()["config"]["vectors"]) == (201, "int8")
    tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))
    domain = key.get(f"{V1}/domains").json()["results"][0]["id"]
    assert error(key.post(f"{V1}/domains/{domain}/compact"))[:2] == (404, "not_found")
    updated = key.post(f"{V1}/domains/{domain}/versions", {"corpus": acme.corpus.pk})
    assert updated.status_code == 201, updated.content
    tree_factory.do_jobs(Version.unscoped.get(pk=updated.json()["id"]))
    compacted = key.post(f"{V1}/domains/{domain}/compact")
    assert compacted.status_code == 201, compacted.content
    assert [job["kind"] for job in compacted.json()["jobs"]] == ["compact"]
    assert error(key.post(f"{V1}/platform/domains/{domain}/compact"))[0] == 401


def test_vectors_of_an_unknown_kind_are_refused(root: Version, acme: TenantFixture, key: APIClient) -> None:
    body = {"name": "law", "parent": root.pk, "corpus": acme.corpus.pk, "vectors": "float64"}
    assert error(key.post(f"{V1}/domains", body)) == (422, "invalid_field", "settings.vectors")
