"""Models, who may look at them, and errors at addresses of nothing."""

from django.test import Client

from tenants.audit.models import AuditEvent
from tests.integration.inference.openai.conftest import Caller
from tests.integration.inference.openai.tuning import asked, begin
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job
from versiontree.tree.models import Hplm, Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.services.root_retirement import root_set_callable


def test_a_key_lists_what_it_can_call_or_fine_tune(
    root: Version, acme: TenantFixture, globex: TenantFixture, client: Caller, stranger: Caller
) -> None:
    own = tree_factory.ready_domain(root, "tickets", home=acme)
    tree_factory.ready_domain(root, "biomedicine")
    version = tree_factory.ready_hplm(own, "mood", acme)
    tree_factory.new_hplm(own, "unfinished", acme)
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert {model["id"]: model["owned_by"] for model in listed["data"]} == {
        "acme/mood": "acme",
        "bert": "hmi",
    }
    assert [model["id"] for model in stranger.get("/v1/models").json()["data"]] == ["bert"]
    manager = Caller(acme.tenant, "manage").get("/v1/models").json()["data"]
    assert {model["id"]: model["owned_by"] for model in manager} == {
        "acme/mood": "acme",
        "acme/unfinished": "acme",
        "bert/biomedicine": "hmi",
        "bert/tickets": "acme",
        "bert": "hmi",
    }

    for name in ("acme/mood", "mood", "acme%2Fmood"):
        model = client.get(f"/v1/models/{name}").json()
        assert (model["id"], model["hmi"]["digest"]) == ("acme/mood", version.digest)
    assert client.get("/v1/models/acme/mood:1").json()["id"] == "acme/mood:1"
    for name, kind in {"acme/mood": "model", "acme/tickets": "domain", "bert": "root"}.items():
        assert client.get(f"/v1/models/{name}").json()["hmi"]["kind"] == kind
    for name in ("acme/mood", "mood", "bert/tickets", "acme/mood:2", "nothing", "a/b/c", "bert:9"):
        if name in ("acme/mood", "mood", "bert/tickets"):
            refused = stranger.get(f"/v1/models/{name}")
        else:
            refused = client.get(f"/v1/models/{name}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found"), name


def test_a_root_that_is_not_callable_or_has_a_models_name_is_not_listed(
    root: Version, acme: TenantFixture, client: Caller, stranger: Caller
) -> None:
    version = tree_factory.ready_hplm(root, "bert", acme)
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["acme/bert"]
    assert resolve_model(acme.tenant, "bert").digest == version.digest
    assert resolve_model(stranger.tenant, "bert").digest == root.digest

    assert root_set_callable(root=root.root, is_callable=False, actor=None)
    assert not root_set_callable(root=root.root, is_callable=False, actor=None)
    assert stranger.get("/v1/models").json()["data"] == []
    refused = stranger.asks("embeddings", model="bert", input="one")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    entry = AuditEvent.unscoped.get(verb="root.callable")
    assert (entry.subject, entry.detail) == ("bert", {"callable": False})


def test_either_scope_lists_models_and_only_manage_deletes_them(root: Version, acme: TenantFixture) -> None:
    tree_factory.ready_hplm(root, "mood", acme)
    reader, manager = Caller(acme.tenant, "infer"), Caller(acme.tenant, "manage")
    assert reader.get("/v1/models").status_code == manager.get("/v1/models").status_code == 200
    assert reader.get("/v1/files").json()["error"]["code"] == "forbidden"
    refused = reader.delete("/v1/models/acme/mood")
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "invalid_request_error")
    assert manager.delete("/v1/models/bert").status_code == 403
    assert manager.delete("/v1/models/acme/mood:1").status_code == 400
    gone = manager.delete("/v1/models/acme/mood").json()
    assert gone == {"id": "acme/mood", "object": "model", "deleted": True}
    assert Hplm.unscoped.get().deleted_at
    assert manager.get("/v1/models/acme/mood").status_code == 404


def test_what_is_still_tuned_stays_and_says_by_what_ids_that_is_cancelled(
    client: Caller, root: Version, acme: TenantFixture
) -> None:
    job = asked(client, suffix="mood")
    begin(job)
    refused = client.delete("/v1/models/acme/mood")
    told = refused.json()["error"]
    assert (refused.status_code, told["code"], told["param"]) == (409, "has_dependents", "model")
    (dependent,) = told["details"]["dependents"]
    assert (dependent["type"], dependent["id"]) == ("fine_tuning.job", job["id"])
    assert client.asks(f"fine_tuning/jobs/{dependent['id']}/cancel").json()["status"] == "cancelled"
    assert client.delete("/v1/models/acme/mood").json()["deleted"]

    evaluated = tree_factory.ready_hplm(root, "spam", acme)
    later = Job.unscoped.create(kind="evaluate", tenant=acme.tenant, version=evaluated, state="queued")
    (dependent,) = client.delete("/v1/models/acme/spam").json()["error"]["details"]["dependents"]
    assert (dependent["type"], dependent["id"]) == ("job", str(later.pk))
    assert client.get(f"/api/v1/jobs/{dependent['id']}").json()["id"] == dependent["id"]


def test_errors_have_the_shape_of_the_conventions(client: Caller) -> None:
    nobody = Client(raise_request_exception=False)
    unknown = nobody.get("/v1/models", headers={"authorization": "Bearer nonsense"})
    silent = nobody.get("/v1/models")
    for refused in (unknown, silent):
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    answers = {
        404: client.get("/v1/nothing"),
        405: client.put("/v1/models"),
        400: client.post("/v1/fine_tuning/jobs", "{", content_type="application/json"),
        413: client.post(
            "/v1/fine_tuning/jobs", b"{}", content_type="application/json", CONTENT_LENGTH=str(2**40)
        ),
    }
    for status, answer in answers.items():
        error = answer.json()["error"]
        assert answer.status_code == status
        assert error.keys() >= {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        assert answer.headers["x-request-id"]
