"""What requests for generated text count as: usage, limits by the minute, and the quota of the day."""

from collections.abc import Iterable
from typing import Any

import pytest
from django.core.signals import request_finished
from django.db import close_old_connections
from rest_framework.test import APIClient

from inference.queueing.messages import ReplyError
from tenants.usage.models import Quota
from tenants.usage.selectors import requests_today
from tests.integration.inference.generation.conftest import QUESTION, Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker
from tests.integration.inference.generation.test_completions import PROMPT
from tests.integration.inference.generation.test_generated import CHAT, batch_of, request, run
from tests.unit.tiny_decoder import EOS

pytestmark = pytest.mark.django_db


def usage_of(served: Served) -> dict[str, Any]:
    """The row of `writer` in the usage that the tenant sees; zeros if there is none."""
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.manage_key}")
    rows = client.get("/api/v1/tenants/acme/usage?by=model").json()["results"]
    names = ("requests", "failed", "tokens", "generated_tokens")
    found = [row for row in rows if row["model"] == "writer"]
    return {name: found[0][name] if found else 0 for name in names}


@pytest.mark.parametrize("error", [None, ReplyError("inference_failed", "It broke.")])
def test_the_generated_tokens_of_a_batch_are_counted_as_those_of_live_requests(
    program: APIClient, served: Served, worker: ScriptedWorker, error: ReplyError | None
) -> None:
    said, choices, before = tokens_of("four"), 2, usage_of(served)
    worker.says(*said, *([] if error else [EOS]), error=error)
    run(batch_of(program, served, CHAT, [request("a", CHAT, messages=QUESTION, n=choices)]))
    spent = {name: count - before[name] for name, count in usage_of(served).items()}
    generated = len(said) if error else choices * (len(said) + 1)
    assert spent == {
        "requests": 1,
        "failed": int(error is not None),
        "tokens": len(tokens_of(PROMPT)) + generated,
        "generated_tokens": generated,
    }


@pytest.fixture
def quota_of_three(db: None, redis_client: Any, patient_limits: None, served: Served) -> int:
    """Three more requests today; returns how many there were."""
    used = requests_today(served.acme.tenant)
    Quota.unscoped.update_or_create(tenant=served.acme.tenant, defaults={"max_requests_per_day": used + 3})
    return used


def close(answers: Iterable[Any]) -> None:
    """End the streams, but not the test's session, as the test client does it."""
    request_finished.disconnect(close_old_connections)
    for answer in answers:
        answer.close()
    request_finished.connect(close_old_connections)


def test_thirty_chats_at_once_get_no_more_than_the_quota_of_the_day(
    quota_of_three: int, program: APIClient, served: Served, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("a long story"), EOS, hold_after=2)
    asked = {"model": "acme/writer", "messages": QUESTION, "stream": True}
    answers = [program.post(CHAT, asked, format="json") for _ in range(30)]
    taken = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code != 200]
    try:
        assert len(taken) == 3
        for answer in refused:
            told = answer.json()["error"]
            assert (answer.status_code, told["code"]) == (429, "insufficient_quota")
            assert int(answer["Retry-After"]) > 0
    finally:
        close(taken)
    assert requests_today(served.acme.tenant) == quota_of_three + 3


def test_a_request_that_is_refused_after_all_gives_its_place_in_the_quota_back(
    quota_of_three: int, program: APIClient, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("a long story"), EOS, hold_after=2)
    asked = {"model": "acme/writer", "messages": QUESTION, "stream": True}
    named = [program.post(CHAT, asked, format="json", headers={"X-Request-Id": "one"}) for _ in range(5)]
    others = [program.post(CHAT, asked, format="json") for _ in range(4)]
    try:
        assert [answer.status_code for answer in named] == [200] + 4 * [409]
        assert [answer.status_code for answer in others] == [200, 200, 429, 429]
    finally:
        close([*named, *others])


def test_the_lines_of_a_batch_under_way_count_in_the_quota_of_the_day(
    quota_of_three: int, program: APIClient, served: Served, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("four"), EOS)
    batch = batch_of(program, served, CHAT, [request(str(at), CHAT, messages=QUESTION) for at in range(20)])
    run(batch)
    told = program.get(f"/v1/batches/{batch['id']}").json()
    assert (told["status"], told["request_counts"]["completed"]) == ("in_progress", 3)
    assert requests_today(served.acme.tenant) == quota_of_three + 3
