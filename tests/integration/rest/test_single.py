"""Tags: a change that is tied to what somebody has read is refused once it is something else."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.models import ApiKey, WebhookEndpoint
from tenants.services.usage import usage_record
from tenants.services.webhooks import webhook_create
from tests.integration.world import World, make_world

V1 = "/api/v1"


def hook(world: World) -> str:
    endpoint, _ = webhook_create(
        tenant=world.tenant, url="https://example.org/", kinds=["job.failed"], actor=world.owner
    )
    return f"{V1}/webhooks/{endpoint.pk}"


def change(client: APIClient, where: str, description: str, tag: str) -> Any:
    return client.patch(where, {"description": description}, format="json", headers={"If-Match": tag})


def test_a_change_is_refused_once_it_is_something_else_and_answers_with_the_new_tag(world: World) -> None:
    client, where = world.client(key=world.key()[1]), hook(world)
    first = client.get(where)["ETag"]
    changed = change(client, where, "one", first)
    assert (changed.status_code, changed["ETag"]) == (200, client.get(where)["ETag"])
    assert changed["ETag"] != first
    refused = change(client, where, "two", first)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (412, "precondition_failed", "If-Match")
    assert error["details"] == {"etag": changed["ETag"]}
    assert change(client, where, "two", f"W/{changed['ETag']}").status_code == 412  # weak ones never match
    assert WebhookEndpoint.unscoped.get().description == "one"
    assert client.delete(where, headers={"If-Match": first}).status_code == 412
    assert client.patch(where, {"description": "three"}, format="json").status_code == 200
    assert client.delete(where, headers={"If-Match": "*"}).status_code == 204
    assert client.delete(where, headers={"If-Match": "*"}).status_code == 404


def test_what_changes_by_itself_is_not_in_the_tag(world: World) -> None:
    owner = world.client(world.owner)
    key, _ = world.key()
    for where, pass_time in (
        (
            f"{V1}/tenants/acme/api-keys/{key.prefix}",
            lambda: ApiKey.unscoped.update(last_used_at=timezone.now() + timedelta(days=1)),
        ),
        (
            f"{V1}/tenants/acme",
            lambda: usage_record(tenant=world.tenant, hplm_name="mood", inputs=1, tokens=9),
        ),
    ):
        before = owner.get(where)
        pass_time()
        after = owner.get(where)
        assert before.json() != after.json()
        assert before["ETag"] == after["ETag"]


def test_of_two_changes_upon_one_reading_one_is_made(transactional_db: None, upload_root: Any) -> None:
    world = make_world()
    client, where = world.client(key=world.key()[1]), hook(world)

    def act(turn: int, number: int) -> int:
        start.wait()
        try:
            return int(change(client, where, f"change {turn}.{number}", tag).status_code)
        finally:
            connection.close()

    for turn in range(5):
        tag, start = client.get(where)["ETag"], Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(partial(act, turn), range(4))) == [200, 412, 412, 412]


@pytest.mark.parametrize("tag", ["", "x", '"', "W/", "\x7f"])
def test_a_header_that_is_no_tag_matches_nothing(world: World, tag: str) -> None:
    client = world.client(key=world.key()[1])
    assert change(client, hook(world), "one", tag).status_code == 412
