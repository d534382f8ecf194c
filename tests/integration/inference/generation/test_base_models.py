"""Roots that are called by their names: listed, answered by a real worker, counted and refused."""

import httpx
import pytest
from rest_framework.test import APIClient

from tenants.accounts.models import Tenant
from tenants.usage.models import UsageDay
from tests.integration.inference.generation.conftest import QUESTION, Served
from tests.processes import wait_until
from versiontree.tree.models import Version

pytestmark = pytest.mark.django_db


def used(tenant: Tenant, name: str) -> tuple[int, int]:
    """The requests and the tokens that were counted for a model."""
    rows = UsageDay.unscoped.filter(tenant=tenant, model_name=name)
    return sum(row.requests for row in rows), sum(row.tokens for row in rows)


@pytest.mark.usefixtures("real_worker")
def test_all_that_is_listed_can_be_called_and_counts_as_a_model_does(
    web: httpx.Client, served: Served
) -> None:
    listed = {model["id"]: model["hmi"] for model in web.get("/v1/models").json()["data"]}
    assert listed["smol"] == {"kind": "root", "task": "chat"}
    assert listed["tiny"] == {"kind": "root", "task": "embedding"}
    tasks = {name: each["task"] for name, each in listed.items()}
    assert set(tasks) == {"acme/writer", "acme/mood", "smol", "tiny"}
    before = used(served.acme.tenant, "smol")

    for name in (name for name, task in tasks.items() if task in ("chat", "generation")):
        asked = {"model": name, "max_tokens": 4, "temperature": 0}
        said = web.post("/v1/chat/completions", json={**asked, "messages": QUESTION})
        assert said.json()["model"] == f"{name}:1", said.text
        told = web.post("/v1/completions", json={**asked, "prompt": "one"})
        assert (told.status_code, told.json()["usage"]["completion_tokens"] > 0) == (200, True)
    vectors = {}
    for name in (name for name, task in tasks.items() if task not in ("chat", "generation")):
        answer = web.post("/v1/embeddings", json={"model": name, "input": ["one", "two"]}).json()
        assert answer["model"] == f"{name}:1"
        vectors[name] = answer["data"][0]["embedding"]
    assert len(vectors["tiny"]) == len(vectors["acme/mood"])
    assert vectors["tiny"] != vectors["acme/mood"], "the root is not asked through a model's adapter"

    wait_until(lambda: used(served.acme.tenant, "smol")[0] == before[0] + 2)
    assert used(served.acme.tenant, "smol")[1] > before[1]


def test_a_root_is_refused_where_it_cannot_answer(web: httpx.Client) -> None:
    refused = {
        "/v1/chat/completions": {"model": "tiny", "messages": QUESTION},
        "/v1/embeddings": {"model": "smol", "input": "one"},
        "/api/v1/infer": {"model": "tiny", "inputs": ["one"]},
    }
    for address, body in refused.items():
        error = web.post(address, json=body).json()["error"]
        assert (error["code"], error["param"]) == ("invalid_field", "model"), error
    for name in ("acme/smol", "smol:9", "smol@production"):
        answer = web.post("/v1/completions", json={"model": name, "prompt": "one"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found"), name


def test_a_root_without_a_chat_template_completes_text_only(program: APIClient, served: Served) -> None:
    Version.unscoped.filter(root__name="smol", kind="root").update(
        metrics={"convert": {"chat_template": False}}
    )
    listed = {model["id"]: model["hmi"] for model in program.get("/v1/models").json()["data"]}
    assert listed["smol"]["task"] == "generation"
    body = {"model": "smol", "messages": QUESTION}
    error = program.post("/v1/chat/completions", body, format="json").json()["error"]
    assert error["message"] == "smol was not trained for chats. Use /v1/completions."
