"""A walk over every route that names a thing, by another tenant that asks below its own name for what is not
its own. The walls of the database are down: the look-up of each name and id has to find nothing by itself.
"""

import re
from typing import Any
from uuid import UUID

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.http import HttpResponseBase
from django.test import Client

from tenants.accounts.models import Tenant
from tenants.accounts.services.api_keys import api_key_create
from tenants.base.row_security import table_policies
from tenants.webhooks.services.endpoints import webhook_create
from tests.e2e.world import World
from tests.integration.routes.conf import PARAMETER, address
from tests.integration.routes.conftest import Places
from tests.integration.routes.table import API_OF_A_TENANT, OIP, OPENAI, PAGES_OF_A_TENANT, Methods
from tests.integration.versiontree.tree_factory import corpus, dataset
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create

Body = dict[str, object]

SHARED = {"roots/<slug:name>/versions/<int:number>/", "roots/<slug:name>/rebase"}
"""Routes that name what everybody may use. A rebase onto a root changes the asking tenant's models alone."""
FOR_PEOPLE = ("api-keys", "members", "invitations", "takeouts")
"""What begins so is refused to keys, whatever they ask for."""

DOMAINS = ("api/v1/domains", "api/v1/estimate/domain")
HPLMS = ("api/v1/models", "api/v1/estimate")


@pytest.fixture
def umbra(world: World) -> Tenant:
    """Who asks: it has texts and examples, and a key for everything. The database would let it see all."""
    cache.clear()  # how often somebody tried is remembered by the process
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for wall in table_policies():
            cursor.execute(f'ALTER TABLE "{wall.table}" DISABLE ROW LEVEL SECURITY')
    return Tenant.objects.get(slug="umbra")


@pytest.fixture
def person(world: World) -> Client:
    """Umbra's owner, in a browser."""
    client = Client(raise_request_exception=False)
    client.force_login(world.stranger)
    return client


@pytest.fixture
def program(world: World, umbra: Tenant) -> Client:
    """What has a key of umbra's for everything."""
    _, secret = api_key_create(tenant=umbra, name="k", scopes=["infer", "manage"], created_by=world.stranger)
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def bodies(umbra: Tenant) -> dict[str, Body]:
    """Those of requests that would be refused for their body before anything is looked for."""
    text, examples = corpus(umbra, "own").pk, dataset(umbra, "own").pk
    return {
        "POST domains/<int:domain_id>/versions": {"corpus": text},
        "POST domains/<int:domain_id>/estimate": {"corpus": text},
        "PATCH models/<slug:name>": {"description": "Mine now."},
        "POST models/<slug:name>/versions": {"dataset": examples},
        "PATCH models/<slug:name>/versions/<int:number>": {"policy": "full"},
        "PUT models/<slug:name>/aliases/<slug:alias>": {"version": 1},
        "PUT models/<slug:name>/aliases/<slug:alias>/canary": {"version": 1, "percent": 5},
        "PATCH members/<int:member_id>": {"role": "owner"},
    }


def naming(routes: dict[str, Methods]) -> list[tuple[str, str, int]]:
    """The routes that name a thing, each with its methods and what the thing's owner gets."""
    named = [route for route in routes if PARAMETER.search(route) and route not in SHARED]
    return [(route, method, codes.owner) for route in named for method, codes in routes[route].items()]


def asked(request: str, bodies: dict[str, Body]) -> dict[str, Any]:
    """What is sent with it."""
    if request == "PATCH uploads/<uuid:upload_id>":
        headers = {"Upload-Offset": "0"}
        return {"content_type": "application/offset+octet-stream", "data": b"a", "headers": headers}
    return {"content_type": "application/json", "data": bodies.get(request, {})}


def ask(client: Client, method: str, path: str, **sent: Any) -> HttpResponseBase:
    """The answer; whatever it changed is undone."""
    with transaction.atomic():
        answer: HttpResponseBase = getattr(client, method.lower())(path, **({} if method == "GET" else sent))
        transaction.set_rollback(True)
    return answer


def nowhere(value: object) -> object:
    """A name or id of the same form for which there is nothing in any tenant."""
    match value:
        case int():
            return 10**6 + value
        case UUID():
            return UUID(int=1)
    return re.sub("[0-9a-f]{32}", "1" * 32, str(value)).replace("triage", "absent")


def said(answer: HttpResponseBase, path: str) -> str:
    """In what words, without the token of the page's forms, which no two answers share."""
    text = bytes(getattr(answer, "content", b"")).decode().replace(path, "(path)")
    return re.sub(r'(csrfmiddlewaretoken" value="|"X-CSRFToken": ")\w+', r"\1", text)


def test_what_is_anothers_is_as_if_it_were_not_there(
    found: tuple[Places, Places], bodies: dict[str, Body], person: Client, program: Client
) -> None:
    there = found[0] | {"slug": "umbra", "tenant": "umbra"}
    absent = {name: nowhere(value) for name, value in there.items()} | {"slug": "umbra", "tenant": "umbra"}
    faults = []

    def walk(client: Client, prefix: str, routes: dict[str, Methods], query: str = "") -> None:
        for route, method, own in naming(routes):
            path, other = address(f"{prefix}{route}", there), address(f"{prefix}{route}", absent)
            sent = asked(f"{method} {route}", bodies)
            answer = ask(client, method, path + query, **sent)
            expected = 403 if client is program and route.startswith(FOR_PEOPLE) else 404
            if answer.status_code != expected:
                faults.append(f"{method} {path}: {answer.status_code}, not {expected}")
            if own == 404 and said(answer, path) != said(ask(client, method, other + query, **sent), other):
                faults.append(f"{method} {path}: {said(answer, path)}")

    walk(person, "t/<slug:slug>/", PAGES_OF_A_TENANT)
    for routes, prefix in ((API_OF_A_TENANT, "api/v1/"), (OIP, ""), (OPENAI, "")):
        walk(person, prefix, routes, "?tenant=umbra")
        walk(program, prefix, routes)
    assert not faults, "\n".join(faults)


def test_what_a_body_names_is_looked_for_among_ones_own(
    world: World, found: tuple[Places, Places], umbra: Tenant, program: Client
) -> None:
    there, root = found[0], world.root.pk
    text, examples = corpus(umbra, "own"), dataset(umbra, "own")
    hplm_create(tenant=umbra, name="mine", parent=world.root, dataset=examples, actor=None)
    endpoint, _ = webhook_create(
        tenant=umbra, url="https://example.org/", kinds=["job.failed"], actor=world.stranger
    )
    domain: Body = {"name": "new", "parent": root, "corpus": text.pk}
    hplm: Body = {"name": "new", "parent": root, "dataset": examples.pk}
    their_domain: Body = {"parent": Version.unscoped.get(domain__tenant=world.tenant).pk}
    their_text: Body = {"corpus": world.corpus.pk}
    their_examples: Body = {"dataset": world.dataset.pk}
    upload, file = str(there["upload_id"]), there["file_id"]
    bodies: list[tuple[str, Body]] = [
        *((path, domain | theirs) for path in DOMAINS for theirs in (their_domain, their_text)),
        *((path, hplm | theirs) for path in HPLMS for theirs in (their_domain, their_examples)),
        ("api/v1/models/mine/versions", their_examples),
        ("api/v1/models/mine/versions/1/evaluate", their_examples),
        ("api/v1/checks", {"kind": "corpus", "files": {"file": upload}}),
        ("api/v1/batches", {"model": "mine", "upload": upload}),
        ("api/v1/infer", {"model": "acme/triage", "inputs": ["a"]}),
        ("v1/embeddings", {"model": "acme/triage", "input": "a"}),
        ("v1/completions", {"model": "acme/triage", "prompt": "a"}),
        ("v1/chat/completions", {"model": "acme/triage", "messages": [{"role": "user", "content": "a"}]}),
        ("v1/fine_tuning/jobs", {"model": "minilm", "training_file": file}),
        ("v1/fine_tuning/jobs", {"model": "acme/triage", "training_file": file}),
        (
            "v1/batches",
            {"input_file_id": file, "endpoint": "/v1/embeddings", "completion_window": "24h"},
        ),
        (f"api/v1/webhooks/{endpoint.pk}/deliveries/{there['delivery_id']}/replay", {}),
    ]
    faults = []
    for path, body in bodies:
        answer = ask(program, "POST", f"/{path}", data=body, content_type="application/json")
        if answer.status_code != 404:
            faults.append(f"{path} {body}: {answer.status_code} {said(answer, path)}")
    assert not faults, "\n".join(faults)
