"""What requests for generated text count as: usage, limits by the minute, and the quota of the day."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from inference.queueing.messages import ReplyError
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
