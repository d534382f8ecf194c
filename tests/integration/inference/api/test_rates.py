"""Tokens of infer requests by the minute."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tenants.accounts.models import User
from tests.integration.inference.api.conftest import Ask

pytestmark = pytest.mark.usefixtures("patient_limits")
TEXT = "a good stone"


def left(answer: Any) -> int:
    """Tokens that remain."""
    return int(answer["x-ratelimit-remaining-tokens"])


@pytest.mark.usefixtures("worker")
def test_tokens_count_as_they_are_read(ask: Ask, settings: Settings) -> None:
    settings.HMI_RATE_TOKENS = 100_000
    long = " ".join([TEXT] * 300)  # beyond what the root reads
    for inputs in ([TEXT], [long], [TEXT] * 5):
        answer = ask(inputs=inputs)
        assert answer.status_code == 200
        again = ask(inputs=inputs)
        spent, flowed = left(answer) - left(again), 100_000 / 60
        assert again.json()["usage"]["tokens"] - flowed <= spent <= again.json()["usage"]["tokens"]


@pytest.mark.usefixtures("worker")
def test_beyond_the_limit_a_request_is_refused_before_it_is_queued(ask: Ask, settings: Settings) -> None:
    settings.HMI_RATE_TOKENS = 12
    assert ask(inputs=[TEXT] * 3).status_code == 200
    refused = ask(inputs=[TEXT])
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
    assert refused.json()["error"]["details"]["limit"] == "tokens"
    assert left(refused) == 0
    assert int(refused["Retry-After"]) >= 1


@pytest.mark.usefixtures("busy")
def test_what_was_refused_or_not_computed_costs_nothing(ask: Ask, settings: Settings) -> None:
    settings.HMI_RATE_TOKENS = 12
    for _ in range(5):
        assert ask(model="acme/unborn").status_code == 409
        assert ask(inputs=[""]).status_code == 422
    answer = ask(inputs=[TEXT], timeout_s=0.05)
    assert answer.status_code in {429, 504}


def test_the_playground_counts_against_the_limit_of_requests_of_its_tenant(
    ask: Ask, settings: Settings, viewer: User, client: Client
) -> None:
    settings.HMI_RATE_REQUESTS = 1
    assert ask(model="acme/unborn").status_code == 409
    client.force_login(viewer)
    page = client.post("/t/acme/playground/send/", {"model": "mood", "text": TEXT}).content.decode()
    assert "Rate limit exceeded: 1 requests per minute for this tenant." in page
