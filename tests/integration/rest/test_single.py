"""Tags: a change that is tied to what somebody has read is refused once it is something else."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.accounts.models import ApiKey, Membership
from tenants.accounts.services.members import member_add, member_set_role
from tenants.usage.services.usage import usage_record
from tenants.webhooks.models import WebhookEndpoint
from tenants.webhooks.services.endpoints import webhook_create
from tests.integration.sessions import by_itself, wait_for_a_waiting_session
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import signed_in
from tests.integration.world import World, make_world
from versiontree.jobs.models import Job
from versiontree.tree.services.aliases import alias_move, alias_point, hplm_lock
from versiontree.tree.services.hplms import hplm_update
from versiontree.tree.services.versions import version_lock

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
            lambda: usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=9),
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
        return int(by_itself(change, client, where, f"change {turn}.{number}", tag).status_code)

    for turn in range(5):
        tag, start = client.get(where)["ETag"], Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(partial(act, turn), range(4))) == [200, 412, 412, 412]


def test_a_move_and_a_change_by_tag_wait_for_each_other_in_one_order(
    transactional_db: None, upload_root: Any, artifact_root: Any, redis_url: str, tmp_path: Path
) -> None:
    home = tree_factory.create_tenant("acme")
    version = tree_factory.ready_hplm(tree_factory.ready_root(tmp_path), "spam", home)
    hplm, client = tree_factory.hplm_of(version), signed_in(home.owner)
    where = f"{V1}/tenants/acme/models/spam/aliases/live"
    alias_move(hplm=hplm, name="live", version=version, actor=None)
    old = client.get(where)["ETag"]
    second = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=home.dataset, actor=None))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():  # somebody else's move, halfway
            hplm_lock(hplm=hplm)
            late = pool.submit(put, client, where, {"version": 1}, old)
            wait_for_a_waiting_session()
            alias_point(hplm=hplm, name="live", version=second, actor=None, reason="")
        assert late.result().status_code == 412
    assert put(client, where, {"version": 1}, client.get(where)["ETag"]).status_code == 200


def test_a_promotion_waits_its_turn_and_is_not_taken_back_by_who_had_not_seen_it(
    transactional_db: None, upload_root: Any, artifact_root: Any, redis_url: str, tmp_path: Path
) -> None:
    home = tree_factory.create_tenant("acme")
    hplm = tree_factory.hplm_of(tree_factory.ready_hplm(tree_factory.ready_root(tmp_path), "spam", home))
    client, where = signed_in(home.owner), f"{V1}/tenants/acme/models/spam/aliases/default"
    old = client.get(where)["ETag"]

    def last_job() -> Job:
        """Of a new version, which it promotes; it waits for a worker."""
        tuning, evaluating = tree_factory.jobs_in_order(
            hplm_update(hplm=hplm, dataset=home.dataset, actor=None)
        )
        tree_factory.do_job(tuning)
        return evaluating

    with ThreadPoolExecutor(1) as pool:
        job = last_job()
        with transaction.atomic():  # the promotion, halfway
            tree_factory.do_job(job)
            late = pool.submit(put, client, where, {"version": 1}, old)
            wait_for_a_waiting_session()
        assert late.result().status_code == 412
        job = last_job()
        with transaction.atomic():  # another retries it, halfway
            hplm_lock(hplm=hplm)
            promoting = pool.submit(by_itself, tree_factory.do_job, job)
            wait_for_a_waiting_session()
            version_lock(version_id=job.version.pk)
        promoting.result()
    assert client.get(where).json()["version"] == 3


def test_two_owners_who_change_each_other_by_tag_wait_in_one_order(transactional_db: None) -> None:
    world = make_world()
    second = member_add(tenant=world.tenant, user=world.stranger, role="owner")
    first = Membership.objects.for_tenant(world.tenant).get(user=world.owner)
    assert first.pk < second.pk
    client, where = world.client(world.owner), f"{V1}/tenants/acme/members/{second.pk}"
    tag = client.get(where)["ETag"]
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():  # the other's change of the first, halfway
            list(Membership.unscoped.select_for_update().filter(pk=first.pk))
            late = pool.submit(put, client, where, {"role": "viewer"}, tag, "patch")
            wait_for_a_waiting_session()
            assert member_set_role(membership=first, role="developer").role == "developer"
        assert late.result().status_code == 403  # no owner any more


def put(client: APIClient, where: str, body: dict[str, Any], tag: str, how: str = "put") -> Any:
    return by_itself(getattr(client, how), where, body, format="json", headers={"If-Match": tag})


@pytest.mark.parametrize("tag", ["", "x", '"', "W/", "\x7f"])
def test_a_header_that_is_no_tag_matches_nothing(world: World, tag: str) -> None:
    client = world.client(key=world.key()[1])
    assert change(client, hook(world), "one", tag).status_code == 412
