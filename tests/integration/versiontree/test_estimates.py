"""Estimates of models and domains, and of the stages of jobs, from past jobs of the same root."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.audit.models import AuditEvent
from tenants.base.scope import platform_scope
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import signed_in
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import Version, VersionArtifact
from versiontree.tree.selectors.estimates import domain_estimate, hplm_estimate, jobs_estimate
from versiontree.tree.selectors.past_jobs import EstimateRange, stage_shares

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def set_durations(version: Version, *seconds: float) -> None:
    """As if the succeeded jobs of a version had taken so long."""
    now = timezone.now()
    for job, took in zip(tree_factory.jobs_in_order(version), seconds, strict=True):
        Job.unscoped.filter(pk=job.pk).update(
            attempt=1, started_at=now - timedelta(seconds=took), finished_at=now
        )


def size_of(version: Version) -> int:
    links = VersionArtifact.unscoped.filter(version=version)
    return sum(links.values_list("artifact__size", flat=True))


def test_estimate_without_past_jobs_is_unknown(root: Version, acme: TenantFixture) -> None:
    estimate = hplm_estimate(root, viewer=acme.tenant)
    assert (estimate.seconds, estimate.until_ready, estimate.past_jobs) == (None, None, 0)
    assert (estimate.queue.position, estimate.queue.wait_s) == (1, 0)
    assert estimate.storage_bytes is None


@platform_scope()
def test_model_estimate_is_the_median_and_range_of_all_tenants_jobs_of_its_root(
    root: Version, decoder: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    done = [
        tree_factory.ready_hplm(root, f"past-{number}", home)
        for number, home in enumerate((acme, globex, acme))
    ]
    for version, seconds in zip(done, (100, 140, 700), strict=True):
        set_durations(version, seconds, seconds / 10)
    tree_factory.new_hplm(root, "unfinished", acme)
    estimate = hplm_estimate(root, viewer=acme.tenant)
    assert estimate.seconds == EstimateRange(110, 154, 770)
    assert estimate.past_jobs == 3
    assert estimate.storage_bytes == sorted(map(size_of, done))[1]
    assert hplm_estimate(decoder, viewer=acme.tenant).seconds is None, "another root's"


@platform_scope()
def test_estimate_from_fewer_than_three_jobs_is_not_of_other_tenants(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    set_durations(tree_factory.ready_domain(root, "past", home=acme), 300, 40)
    own, others, all_seen = (
        domain_estimate(root, settings={}, viewer=viewer) for viewer in (acme.tenant, globex.tenant, None)
    )
    assert (others.seconds, others.past_jobs, others.storage_bytes) == (None, 0, None)
    assert (own.seconds, own.past_jobs) == (EstimateRange.exactly(340), 1)
    assert own == all_seen
    for name, home, shown in (
        ("of-the-platform", None, EstimateRange.exactly(55)),
        ("third", acme, EstimateRange(55, 55, 340)),
    ):
        set_durations(tree_factory.ready_domain(root, name, home=home), 50, 5)
        assert domain_estimate(root, settings={}, viewer=globex.tenant).seconds == shown
    set_durations(tree_factory.ready_hplm(root, "past", acme), 60, 2)
    for builder, known in ((acme, True), (globex, False)):
        building = tree_factory.new_hplm(root, "unfinished", builder)
        assert bool(jobs_estimate(building, tree_factory.jobs_in_order(building))) == known


@platform_scope()
def test_domain_estimate_takes_the_minutes_of_its_settings_before_past_jobs(
    root: Version, acme: TenantFixture
) -> None:
    past = tree_factory.ready_domain(root, "past", home=acme)
    set_durations(past, 300, 40)
    learned = domain_estimate(root, settings={}, viewer=acme.tenant)
    assert (learned.seconds, learned.past_jobs) == (EstimateRange.exactly(340), 1)
    assert learned.storage_bytes == size_of(past)
    limited = domain_estimate(root, settings={"minutes": 60}, viewer=acme.tenant)
    assert limited.seconds == EstimateRange.exactly(3640)


@platform_scope()
def test_until_ready_includes_the_queue(root: Version, acme: TenantFixture) -> None:
    set_durations(tree_factory.ready_hplm(root, "past", acme), 60, 2)
    for number in range(2):
        tree_factory.new_hplm(root, f"queued-{number}", acme)
    estimate = hplm_estimate(root, viewer=acme.tenant)
    assert (estimate.queue.position, estimate.queue.wait_s) == (3, 120)
    assert estimate.until_ready == EstimateRange.exactly(120 + 62)


@pytest.fixture
def decoder(tmp_path: Path) -> Version:
    return tree_factory.ready_decoder(tmp_path)


def test_estimates_are_refused_where_the_creation_is(root: Version, acme: TenantFixture) -> None:
    for wrong, param in (
        ({"name": "No"}, "name"),
        ({"parent": 0}, "parent"),
        ({"settings": {"epochs": 0}}, "settings.epochs"),
    ):
        body = {"name": "spam", "parent": root.pk, "dataset": acme.dataset.pk, **wrong}
        answers = [
            signed_in(acme.owner).post(f"/api/v1/tenants/acme/{at}", body, format="json")
            for at in ("estimate", "models")
        ]
        assert answers[0].json() == answers[1].json(), wrong
        assert answers[0].json()["error"]["param"] == param


def test_the_api_estimates_domains_as_it_would_make_them_and_makes_none(
    root: Version, domain: Version, acme: TenantFixture, staff: APIClient
) -> None:
    own = tree_factory.ready_domain(root, "surgery", home=acme)
    text = tree_factory.corpus(None, "of all")
    counted = (Version.unscoped.count(), Job.unscoped.count(), AuditEvent.unscoped.count())
    caller = signed_in(acme.developer)
    for client, place, corpus, grown in (
        (caller, "tenants/acme", acme.corpus, own),
        (staff, "platform", text, domain),
    ):
        more = {"corpus": corpus.pk, "alpha": 20.0, "settings": {"minutes": 30}}
        new = {"name": "heart", "parent": root.pk, **more}
        for estimate_at, at, body in (
            ("estimate/domain", "domains", new),
            (f"domains/{grown.domain_id}/estimate", f"domains/{grown.domain_id}/versions", more),
        ):
            address = f"/api/v1/{place}/{estimate_at}"
            answer = client.post(address, body, format="json")
            assert answer.status_code == 200, answer.json()
            told = answer.json()
            assert told["seconds"]["low"] >= 30 * 60
            assert told["seconds"]["low"] <= told["seconds"]["likely"] <= told["seconds"]["high"]
            assert told["queue"]["position"] == 1
            wrong = body | {"vectors": "x"}
            asked = [client.post(to, wrong, format="json") for to in (address, f"/api/v1/{place}/{at}")]
            assert asked[0].json() == asked[1].json()
            assert asked[0].json()["error"]["param"] == "settings.vectors"
    assert counted == (Version.unscoped.count(), Job.unscoped.count(), AuditEvent.unscoped.count())


PLAN = (("look up", 0.2), ("fine-tune", 0.8))


def past_stages(version: Version, seconds: float, *stages: tuple[str, float]) -> None:
    """As if the first job of a version had taken so long, and its stages had begun at these seconds."""
    job, start = tree_factory.jobs_in_order(version)[0], timezone.now() - timedelta(hours=1)
    Job.unscoped.filter(pk=job.pk).update(
        state=JobState.SUCCEEDED,
        attempt=1,
        started_at=start,
        finished_at=start + timedelta(seconds=seconds),
    )
    for name, at in stages:
        event = JobEvent.unscoped.create(job=job, kind="stage", message=name)
        JobEvent.unscoped.filter(pk=event.pk).update(at=start + timedelta(seconds=at))


@platform_scope()
def test_the_stages_of_a_job_weigh_by_the_time_they_took_in_the_last_jobs_of_its_kind_and_root(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    """Longer jobs count no more than others; what an earlier claim of a job did counts for nothing."""
    for number, scale in enumerate((1, 10)):
        past_stages(
            tree_factory.new_hplm(root, f"past-{number}", (acme, globex)[number]),
            100 * scale,
            ("look up", -20),
            ("look up", 30 * scale),
            ("surprise", 40 * scale),
            ("fine-tune", 50 * scale),
        )
    assert stage_shares(JobKind.FINE_TUNE, root.root_id, PLAN) == list(PLAN), "too few past jobs"
    past_stages(tree_factory.new_hplm(root, "past-2", acme), 100, ("look up", 60), ("fine-tune", 80))
    measured = dict(stage_shares(JobKind.FINE_TUNE, root.root_id, PLAN))
    assert measured == pytest.approx({"start": 0.4, "look up": 0.2, "fine-tune": 0.4})
    assert stage_shares(JobKind.FINE_TUNE, root.root_id + 1, PLAN) == list(PLAN), "of another root"
    assert stage_shares(JobKind.EVALUATE, root.root_id, PLAN) == list(PLAN), "of another kind"
