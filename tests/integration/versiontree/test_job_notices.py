"""Notices to those who started a job: an e-mail, and a mark in the navigation."""

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client
from pytest_django import Settings

from tests.e2e.world import World, nothing_of_use, start, versions_finish, world_build
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.services.lifecycle import job_fail
from versiontree.jobs.services.notices import notice_send
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create

pytestmark = pytest.mark.usefixtures("in_platform_scope")


@pytest.fixture
def world(db: None, redis_client: Any, artifact_root: Any, upload_root: Any) -> World:
    """A tenant whose owner has a confirmed address."""
    built = world_build()
    built.owner.email = "olga@example.org"
    built.owner.save()
    EmailAddress.objects.create(user=built.owner, email=built.owner.email, verified=True, primary=True)
    return built


def started(world: World, name: str) -> Version:
    return hplm_create(
        tenant=world.tenant, name=name, parent=world.root, dataset=world.dataset, actor=world.owner
    )


def failed(world: World, name: str) -> Version:
    """A version whose first job failed."""
    version = started(world, name)
    job = jobs_in_order(version)[0]
    start(job)
    job_fail(job_id=job.pk, worker="test-worker", code="out_of_disk", message="The disk is full.")
    return version


def told(version: Version) -> list[bool]:
    return [notice_send(job_id=job.pk) for job in jobs_in_order(version)]


def test_a_ready_version_is_told_once_with_a_link_to_its_job(world: World, settings: Settings) -> None:
    settings.HMI_SITE_URL = "https://hmi.example.org"
    version = started(world, "mood")
    versions_finish(version, files=nothing_of_use)
    assert told(version) == [False, True]  # the first of its jobs made nothing ready
    [message] = mail.outbox
    assert (message.subject, message.to) == ("mood v1 is ready", ["olga@example.org"])
    assert f"https://hmi.example.org/t/acme/jobs/{jobs_in_order(version)[1].pk}/" in message.body


def test_a_failure_is_told_with_its_reason(world: World) -> None:
    assert told(failed(world, "mood")) == [True, False]
    [message] = mail.outbox
    assert message.subject == "mood v1 failed"
    assert "The disk is full." in message.body


@pytest.mark.parametrize("reason", ["off", "not confirmed", "not a member"])
def test_nobody_is_told_who_does_not_want_it_or_may_not_see_it(world: World, reason: str) -> None:
    version = failed(world, "mood")
    if reason == "off":
        world.owner.notifies_of_jobs = False
        world.owner.save()
    elif reason == "not confirmed":
        EmailAddress.objects.update(verified=False)
    else:
        world.tenant.memberships.filter(user=world.owner).delete()
    assert told(version) == [False, False]
    assert mail.outbox == []


def test_ended_jobs_are_marked_until_the_list_of_jobs_is_opened(world: World, client: Client) -> None:
    client.force_login(world.owner)
    client.get("/t/acme/jobs/")  # those of the world
    failed(world, "mood")
    done = started(world, "tone")
    assert unseen(world) == 1
    versions_finish(done, files=nothing_of_use)
    assert '2<span class="visually-hidden"> ended</span>' in client.get("/t/acme/").content.decode()
    assert "ended</span>" not in client.get("/t/acme/jobs/").content.decode()
    assert unseen(world) == 0


def test_notices_are_turned_off_on_the_page_of_the_account(world: World, client: Client) -> None:
    client.force_login(world.owner)
    client.get("/t/acme/jobs/")  # those of the world
    assert "checked" in client.get("/notices/").content.decode()
    client.post("/notices/", {"csrfmiddlewaretoken": "x"})
    world.owner.refresh_from_db()
    assert not world.owner.notifies_of_jobs
    failed(world, "mood")
    assert unseen(world) == 0


def unseen(world: World) -> int:
    """How many jobs are marked for the owner."""
    return world.tenant.memberships.get(user=world.owner).unseen_jobs
