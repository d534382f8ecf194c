"""What every route of the API keeps to: keys for creating, pages for lists."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from django.db import transaction
from django.test import Client
from redis import Redis

from inference.api.admission import close_gateway
from tenants.datasets.models import Corpus
from tests.e2e.world import World, world_build
from tests.integration.routes.conf import address
from tests.integration.routes.places import in_the_tenant, on_the_platform
from tests.integration.routes.table import API, API_OF_A_TENANT, OPENAI, Methods

pytestmark = pytest.mark.slow

_ESTIMATES = ("estimate/domain", "domains/<int:domain_id>/estimate")
MAKES_NOTHING = {
    *("corpora/preview", "datasets/preview", "estimate", *_ESTIMATES),
    "platform/estimate/root",
    *(f"platform/{route}" for route in _ESTIMATES),
}
HAS_ITS_OWN_WAY = {"infer", "v1/embeddings", "v1/chat/completions", "v1/completions"}
"""They make nothing. Answers of `infer`, chats and completions are kept all the same, elsewhere
(tests/integration/inference), those of `v1/embeddings` nowhere: asked again they are computed again."""
BARE = {"tree", "jobs/<uuid:job_id>/events", "platform/jobs/<uuid:job_id>/events"}
"""Lists alone, whose header ``Link`` has the addresses of other pages."""
NEXT = re.compile(r'<([^>]+)>; rel="next"')
Asked = tuple[str, Methods, str]
"""A route, its methods, and its address in the world."""


def bodies_of(world: World, values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Bodies of creating POSTs with which something is made."""
    root, upload = world.root.pk, str(values["upload_id"])
    examples: dict[str, object] = {"dataset": world.dataset.pk}
    domain: dict[str, object] = {"name": "new", "parent": root, "corpus": world.corpus.pk}
    shared = {**domain, "corpus": Corpus.unscoped.get(tenant=None).pk}
    return {
        "models": {"name": "new", "parent": root, **examples},
        "models/<slug:name>/versions": examples,
        "domains": domain,
        "platform/domains": shared,
        "platform/domains/<int:domain_id>/versions": {"corpus": shared["corpus"]},
        "batches": {"model": "triage", "upload": upload},
        "checks": {"kind": "corpus", "files": {"file": upload}, "store": False},
        "webhooks": {"url": "https://example.org/", "kinds": ["job.failed"]},
        "api-keys": {"name": "new", "scopes": ["infer"]},
        "invitations": {"email": "another@example.org", "role": "viewer"},
        "v1/fine_tuning/jobs": {"model": "minilm", "training_file": values["file_id"]},
    }


@pytest.fixture
def world(db: None, redis_client: Redis, artifact_root: Any, upload_root: Any) -> Iterator[World]:
    yield world_build()
    close_gateway()


def asked_of(world: World, values: Mapping[str, object]) -> Iterator[tuple[Client, Asked]]:
    """Every route of the API, with somebody who may use it."""
    owner, staff = Client(), Client()
    owner.force_login(world.owner)
    staff.force_login(world.admin)
    of_the_platform = {**values, **on_the_platform(world)}
    for route, methods in API_OF_A_TENANT.items():
        if route:
            yield owner, (route, methods, f"/api/v1/{address(route, values).lstrip('/')}?tenant=acme")
    yield owner, ("tenants/acme", API_OF_A_TENANT[""], "/api/v1/tenants/acme")
    for route, methods in API.items():
        if route not in HAS_ITS_OWN_WAY:
            yield staff, (route, methods, f"/api/v1/{address(route, of_the_platform).lstrip('/')}")
    for route, methods in OPENAI.items():
        if route not in HAS_ITS_OWN_WAY:
            yield owner, (route, methods, f"{address(route, values)}?tenant=acme")


def ask(client: Client, method: str, path: str, body: str = "{}", **headers: str) -> Any:
    """The answer, which changes nothing."""
    with transaction.atomic():
        answer = sent(client, method, path, body, **headers)
        transaction.set_rollback(True)
    return answer


def sent(client: Client, method: str, path: str, body: str = "{}", **headers: str) -> Any:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.generic(method, path, body, "application/json", headers=told)


def test_every_post_takes_an_idempotency_key_and_answers_once(world: World) -> None:
    faults, replayed, values = [], set(), in_the_tenant(world)
    bodies = bodies_of(world, values)
    for client, (route, methods, path) in asked_of(world, values):
        if "POST" not in methods or route in MAKES_NOTHING:
            continue
        refusal = 400 if path.startswith("/v1/") else 422
        refused = ask(client, "POST", path, Idempotency_Key="a b")
        if (refused.status_code, refused.json()["error"]["param"]) != (refusal, "Idempotency-Key"):
            faults.append(f"{path} does not look at the key: {refused.status_code}")
        body = bodies.get(route, {})
        before = transaction.savepoint()  # no block of ours: some of these commit by themselves
        first = sent(client, "POST", path, json.dumps(body), Idempotency_Key="once")
        again = sent(client, "POST", path, json.dumps(body), Idempotency_Key="once")
        other = sent(client, "POST", path, json.dumps({**body, "other": 1}), Idempotency_Key="once")
        transaction.savepoint_rollback(before)
        if first.status_code >= 300:
            if body:
                faults.append(f"{path} makes nothing: {first.content.decode()}")
            continue
        replayed.add(route)
        same = (again.status_code, again.content) == (first.status_code, first.content)
        if not same or again.headers.get("Idempotency-Replayed") != "true":
            faults.append(f"{path} does it again: {first.status_code}, {again.status_code}")
        if other.status_code != refusal:
            faults.append(f"{path} takes another body: {other.status_code}")
    assert not faults, "\n".join(faults)
    assert len(replayed) > len(bodies) + 8


def test_every_list_comes_in_pages_that_begin_where_the_last_ended(world: World) -> None:
    faults, long_enough = [], 0
    for client, (route, methods, path) in asked_of(world, in_the_tenant(world)):
        if "GET" not in methods or path.startswith("/v1/"):
            continue
        whole = ask(client, "GET", path)
        if whole.headers["Content-Type"] != "application/json":
            continue
        if route not in BARE and "results" not in whole.json():
            continue
        if route not in BARE and set(whole.json()) != {"next", "previous", "results"}:
            faults.append(f"{path} tells {sorted(whole.json())}")
        rows, pages = through(client, path)
        long_enough += pages > 1
        if rows != page_of(whole)[0]:
            faults.append(f"{path} in pages is something else")
        sign = "&" if "?" in path else "?"
        for wrong in ("limit=0", "limit=x", "cursor=x", "cursor=cD14", "cursor=cD0lMDA="):
            refused = ask(client, "GET", f"{path}{sign}{wrong}")
            if refused.status_code not in {200, 422} or (
                wrong.startswith("l") and refused.status_code == 200
            ):
                faults.append(f"{path} with {wrong}: {refused.status_code}")
    assert not faults, "\n".join(faults)
    assert long_enough > 5


def page_of(answer: Any) -> tuple[list[Any], str | None]:
    """The rows of a page, and the address of the next one."""
    told = answer.json()
    if isinstance(told, dict):
        return told["results"], told["next"]
    following = NEXT.search(answer.headers.get("Link", ""))
    return told, following and following[1]


def through(client: Client, path: str) -> tuple[list[Any], int]:
    """All rows, one a page, and how many pages there were."""
    rows: list[Any] = []
    pages, following = 0, cast("str | None", f"{path}{'&' if '?' in path else '?'}limit=1")
    while following and pages < 50:
        some, following = page_of(ask(client, "GET", following))
        rows, pages = [*rows, *some], pages + 1
    return rows, pages
