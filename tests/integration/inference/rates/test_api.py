"""What clients meet of the limits by the minute."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from tenants.accounts.models import ApiKey
from tenants.accounts.services.api_keys import api_key_rotate
from tenants.usage.models import Quota
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("redis")
DATASETS, INFER = "/api/v1/tenants/acme/datasets", "/api/v1/infer"


@pytest.fixture(autouse=True)
def three_a_minute(settings: Settings, patient_limits: None) -> None:
    settings.HMI_RATE_MANAGE = 3
    settings.HMI_RATE_REQUESTS = 2


def statuses(client: APIClient, times: int, address: str = DATASETS) -> list[int]:
    """Of so many requests, one after the other."""
    return [client.get(address).status_code for _ in range(times)]


def infer(client: APIClient) -> Any:
    return client.post(INFER, {"model": "acme/nobody", "inputs": ["a text"]}, format="json")


def error_of(answer: Any) -> Any:
    return answer.json()["error"]


def rates(answer: Any, kind: str = "requests") -> list[str | None]:
    """Limit, what remains, and when it is as before."""
    return [answer.headers.get(f"x-ratelimit-{word}-{kind}") for word in ("limit", "remaining", "reset")]


def test_a_tenant_that_asks_too_often_is_told_when_to_ask_again(world: World) -> None:
    client = world.client(key=world.key()[1])
    assert statuses(client, 3) == [200] * 3
    refused = client.get(DATASETS)
    assert refused.status_code == 429
    told = error_of(refused)
    assert (told["code"], told["type"]) == ("rate_limited", "limit")
    assert told["details"] == {"of": "tenant", "limit": "manage requests", "per_minute": 3, "asked": 1}
    assert 1 <= int(refused["Retry-After"]) <= 20
    assert f"again in {refused['Retry-After']} s" in told["message"]
    assert rates(refused)[:2] == ["3", "0"]


def test_every_answer_says_how_much_is_left(world: World) -> None:
    client = world.client(key=world.key()[1])
    assert [rates(client.get(DATASETS))[:2] for _ in range(2)] == [["3", "2"], ["3", "1"]]
    missing = client.get(f"{DATASETS}/4711")
    assert (missing.status_code, rates(missing)[:2]) == (404, ["3", "0"])
    reset = rates(missing)[2]
    assert reset is not None
    assert 30 < float(reset.removesuffix("s")) <= 60
    assert rates(missing, "tokens") == ["60000000", "60000000", "0s"]
    unknown = world.client(key="nobody").get(DATASETS)
    assert (unknown.status_code, rates(unknown)) == (401, [None] * 3)


def test_a_tenants_keys_and_members_share_its_limit_and_others_have_their_own(world: World) -> None:
    assert statuses(world.client(key=world.key()[1]), 2) == [200] * 2
    assert statuses(world.client(world.viewer), 2) == [200, 429]
    assert statuses(world.client(world.stranger), 1, "/api/v1/tenants/globex/datasets") == [200]


def test_infer_requests_of_members_and_keys_share_the_tenants_limit(world: World) -> None:
    assert infer(world.client(world.viewer)).status_code == 404
    assert infer(world.client(key=world.key()[1])).status_code == 404
    refused = infer(world.client(world.owner))
    assert (refused.status_code, error_of(refused)["details"]["of"]) == (429, "tenant")
    assert rates(refused)[:2] == ["2", "0"]
    assert infer(world.client(key=world.key()[1])).status_code == 429


def test_members_that_look_at_a_model_or_cancel_share_the_tenants_limit_of_other_requests(
    world: World,
) -> None:
    looks = [world.client(user).get("/v2/models/acme/nobody") for user in (world.viewer, world.owner)]
    assert [look.status_code for look in looks] == [404, 404]
    assert statuses(world.client(key=world.key()[1]), 2) == [200, 429]
    refused = world.client(world.developer).delete("/api/v1/infer/one?tenant=acme")
    assert (refused.status_code, error_of(refused)["details"]["limit"]) == (429, "manage requests")


def test_infer_requests_count_apart_from_all_others(world: World) -> None:
    client = world.client(key=world.key()[1])
    assert statuses(client, 4) == [200] * 3 + [429]
    assert [infer(client).status_code for _ in range(3)] == [404, 404, 429]
    assert rates(infer(client))[:2] == ["2", "0"]


def test_a_quota_says_otherwise_for_one_tenant(world: World) -> None:
    Quota.objects.for_tenant(world.tenant).update(manage_per_minute=5)
    assert statuses(world.client(world.viewer), 6) == [200] * 5 + [429]
    assert world.client(world.stranger).get("/api/v1/tenants/globex").json()["rates"] == {
        "requests_per_minute": 2,
        "tokens_per_minute": 60_000_000,
        "manage_per_minute": 3,
    }


def test_no_limit_is_none(world: World, settings: Settings) -> None:
    settings.HMI_RATE_MANAGE = settings.HMI_RATE_TOKENS = 0
    client = world.client(key=world.key()[1])
    assert statuses(client, 5) == [200] * 5
    assert rates(client.get(DATASETS)) == rates(client.get(DATASETS), "tokens") == [None] * 3


def test_a_key_may_have_narrower_limits_which_its_successor_takes_over(world: World) -> None:
    made = world.client(world.owner).post(
        "/api/v1/tenants/acme/api-keys",
        {"name": "narrow", "scopes": ["infer", "manage"], "requests_per_minute": 1},
        format="json",
    )
    assert (made.status_code, made.json()["requests_per_minute"]) == (201, 1)
    client = world.client(key=made.json()["key"])
    first, second = client.get(DATASETS), infer(client)
    assert (first.status_code, rates(first)[:2]) == (200, ["1", "0"])
    assert (second.status_code, error_of(second)["details"]["of"]) == (429, "key")
    key = ApiKey.objects.for_tenant(world.tenant).get(prefix=made.json()["prefix"])
    successor, _ = api_key_rotate(api_key=key, overlap=timedelta(hours=1), actor=world.owner)
    assert successor.requests_per_minute == 1


@pytest.mark.parametrize("rate", [0, 3_000_000_000, "many"])
def test_a_limit_that_is_none_is_refused(world: World, rate: Any) -> None:
    asked = {"name": "k", "scopes": ["infer"], "tokens_per_minute": rate}
    answer = world.client(world.owner).post("/api/v1/tenants/acme/api-keys", asked, format="json")
    assert (answer.status_code, error_of(answer)["param"]) == (422, "tokens_per_minute")


def test_whoever_belongs_to_many_tenants_is_held_to_a_limit_of_their_own(world: World) -> None:
    assert statuses(world.client(world.viewer), 4, "/api/v1/tenants") == [200] * 3 + [429]
    assert statuses(world.client(world.owner), 1, "/api/v1/tenants") == [200]
