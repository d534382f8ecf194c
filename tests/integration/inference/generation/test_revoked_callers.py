"""Completions whose sender may not send them any more while they are written."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx
import pytest
from django.conf import settings
from django.test import Client

from tenants.accounts.models import Membership, Tenant, User
from tenants.accounts.services.api_keys import api_key_create, api_key_revoke
from tenants.accounts.services.members import member_add, member_remove
from tenants.accounts.services.tenants import tenant_resume, tenant_suspend
from tests.integration.inference.generation.conftest import QUESTION, Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker
from tests.integration.inference.generation.test_completions import events
from tests.integration.inference.web_server import WebServer
from tests.integration.sessions import by_itself
from tests.processes import wait_until

pytestmark = pytest.mark.django_db
CHAT = "/v1/chat/completions"
SAID = tokens_of("a long story")
Result = TypeVar("Result")
Headers = dict[str, str]


def commit(act: Callable[[], Result]) -> Result:
    """Have it done in a session of its own, so that the web server sees it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(by_itself, act).result()


@pytest.fixture
def anonymous(server: WebServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        yield client


def follow_until(
    client: httpx.Client, headers: Headers, worker: ScriptedWorker, act: Callable[[], Any]
) -> dict[str, Any]:
    """Stream a chat, do this while it is written, and return the error that it ends with."""
    worker.says(*SAID, hold_after=3)
    body = {"model": "acme/writer", "messages": QUESTION, "stream": True}
    with client.stream("POST", CHAT, json=body, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        pieces = answer.iter_text()
        text = next(pieces)
        commit(act)
        text += "".join(pieces)
    wait_until(lambda: len(worker.cancelled) == 1)
    error: dict[str, Any] = events(text)[-1]["error"]
    return error


@pytest.mark.parametrize("how", ["revoked", "suspended"])
def test_stream_and_its_generation_end_with_the_key(
    anonymous: httpx.Client, served: Served, worker: ScriptedWorker, how: str
) -> None:
    tenant = served.acme.tenant
    key, plaintext = commit(
        lambda: api_key_create(tenant=tenant, name="key", scopes=["infer"], created_by=None)
    )
    acts: dict[str, Callable[[], object]] = {
        "revoked": lambda: api_key_revoke(api_key=key, actor=None),
        "suspended": lambda: tenant_suspend(tenant=tenant, actor=None),
    }
    try:
        told = follow_until(anonymous, {"Authorization": f"Bearer {plaintext}"}, worker, acts[how])
    finally:
        commit(lambda: tenant_resume(tenant=Tenant.objects.get(pk=tenant.pk), actor=None))
    assert told["code"] == ("invalid_api_key" if how == "revoked" else "forbidden")


@pytest.mark.parametrize("how", ["removed", "signed out"])
def test_a_stream_of_the_playground_ends_with_the_rights_of_its_member(
    anonymous: httpx.Client, served: Served, worker: ScriptedWorker, how: str
) -> None:
    tenant, browser = served.acme.tenant, Client()

    def signed_in() -> User:
        user = User.objects.create_user(f"leaver-{secrets.token_hex(4)}")
        member_add(tenant=tenant, user=user, role="viewer")
        browser.force_login(user)
        return user

    user, token = commit(signed_in), secrets.token_hex(16)
    session = browser.cookies[settings.SESSION_COOKIE_NAME].value
    port = anonymous.base_url.port
    cookies = f"hmi_session_{port}={session}; hmi_csrf_{port}={token}"
    acts: dict[str, Callable[[], object]] = {
        "removed": lambda: member_remove(membership=Membership.unscoped.get(tenant=tenant, user=user)),
        "signed out": browser.logout,
    }
    told = follow_until(anonymous, {"Cookie": cookies, "X-CSRFToken": token}, worker, acts[how])
    assert told["code"] == ("not_found" if how == "removed" else "invalid_api_key")


def test_a_whole_answer_is_not_generated_to_its_end_for_a_key_that_was_revoked(
    anonymous: httpx.Client, served: Served, worker: ScriptedWorker
) -> None:
    key, plaintext = commit(
        lambda: api_key_create(tenant=served.acme.tenant, name="key", scopes=["infer"], created_by=None)
    )
    worker.says(*SAID, hold_after=3)
    body = {"model": "acme/writer", "messages": QUESTION}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            anonymous.post, CHAT, json=body, headers={"Authorization": f"Bearer {plaintext}"}
        )
        wait_until(lambda: len(worker.received) == 1)
        commit(lambda: api_key_revoke(api_key=key, actor=None))
        answer = waiting.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    wait_until(lambda: len(worker.cancelled) == 1)
