"""Chats and completions in the tenant's request log."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from rest_framework.test import APIClient

from inference.api.admission import close_gateway
from inference.queueing.messages import ReplyError
from tenants.accounts.models import Tenant
from tenants.base.ttl_cache import process_cache
from tenants.usage.models import LoggedRequest
from tests.integration.inference.generation.conftest import QUESTION, Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker
from tests.integration.inference.generation.test_completions import PROMPT
from tests.processes import wait_until
from tests.unit.tiny_decoder import EOS

Chat = Callable[..., httpx.Response]


@pytest.fixture(autouse=True)
def empty_log(db: None, served: Served) -> None:
    """Other tests' web servers have committed theirs."""
    LoggedRequest.unscoped.all().delete()


def ended(one: LoggedRequest) -> tuple[Any, ...]:
    return one.api, one.status, one.error_code, one.model_name, one.version


def test_a_chat_has_the_tokens_that_it_read_and_generated(
    program: APIClient, worker: ScriptedWorker, served: Served
) -> None:
    worker.says(*tokens_of("Good morning"), EOS)
    body = {"model": "acme/writer", "messages": QUESTION}
    assert program.post("/v1/chat/completions", body, format="json").status_code == 200
    one, generated = LoggedRequest.unscoped.get(), len(tokens_of("Good morning")) + 1
    assert ended(one) == ("chat", 200, "", "writer", 1)
    assert (one.tokens, one.generated_tokens) == (len(tokens_of(PROMPT)) + generated, generated)
    assert (one.level, one.inputs, one.texts) == ("", 1, None)


@pytest.mark.parametrize("failure", [None, ReplyError("inference_failed", "The numbers are not finite.")])
def test_a_stream_is_logged_at_its_end(
    chat: Chat, worker: ScriptedWorker, failure: ReplyError | None
) -> None:
    worker.says(*tokens_of("Good"), *([] if failure else [EOS]), error=failure)
    name = chat(stream=True).headers["x-request-id"]
    logged = LoggedRequest.unscoped.filter(request_id=name)
    wait_until(logged.exists)
    one = logged.get()
    assert ended(one) == ("chat", 200, failure.code if failure else "", "writer", 1)
    assert one.generated_tokens == len(tokens_of("Good")) + (not failure)


def test_a_stream_without_a_worker_is_logged_once(program: APIClient, redis_client: Any) -> None:
    close_gateway()  # it remembers the workers of other tests for a moment
    body = {"model": "writer", "messages": QUESTION, "stream": True}
    assert program.post("/v1/chat/completions", body, format="json").status_code == 503
    assert ended(LoggedRequest.unscoped.get()) == ("chat", 503, "worker_unavailable", "writer", 1)


def test_messages_are_logged_if_the_tenant_keeps_texts(
    program: APIClient, worker: ScriptedWorker, served: Served
) -> None:
    Tenant.objects.filter(pk=served.acme.tenant.pk).update(keeps_request_texts=True)
    process_cache().clear()
    worker.says(EOS)
    program.post("/v1/chat/completions", {"model": "writer", "messages": QUESTION}, format="json")
    assert LoggedRequest.unscoped.get().texts == ["Hello"]
