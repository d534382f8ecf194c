"""Calls from pages of other origins."""

import pytest
from corsheaders.conf import conf
from django.test import Client
from pytest_django import Settings

ORIGIN = "https://app.example.org"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type, idempotency-key",
}
ALLOWED = "Access-Control-Allow-Origin"

pytestmark = pytest.mark.django_db


@pytest.fixture
def allowed(settings: Settings) -> None:
    """Pages of one other origin may call the API."""
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    assert conf.CORS_ALLOWED_ORIGINS == [ORIGIN]


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("address", ["/api/v1/infer", "/v1/chat/completions", "/v2/models/a/infer"])
def test_the_browser_is_told_that_a_page_of_an_allowed_origin_may_call(client: Client, address: str) -> None:
    asked = client.options(address, headers=PREFLIGHT)
    assert (asked.status_code, asked[ALLOWED]) == (200, ORIGIN)
    assert {"authorization", "idempotency-key"} <= set(asked["Access-Control-Allow-Headers"].split(", "))
    assert "Access-Control-Allow-Credentials" not in asked  # no session of the user is sent
    refused = client.post(address, {}, "application/json", headers={"Origin": ORIGIN})
    assert (refused.status_code, refused[ALLOWED]) == (401, ORIGIN)


@pytest.mark.usefixtures("allowed")
def test_other_origins_and_other_pages_are_not_opened(client: Client) -> None:
    stranger = PREFLIGHT | {"Origin": "https://elsewhere.example.org"}
    assert ALLOWED not in client.options("/api/v1/infer", headers=stranger)
    assert ALLOWED not in client.get("/login/", headers={"Origin": ORIGIN})


def test_without_the_setting_no_other_origin_may_call(client: Client) -> None:
    assert ALLOWED not in client.options("/api/v1/infer", headers=PREFLIGHT)
