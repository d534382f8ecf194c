"""The quick version of a new model: it answers until the trained version is ready, and afterwards if that
is worse."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.accounts.models import Membership
from tenants.base.dispatch import QUICK_QUEUE, TRAINING_QUEUE
from tenants.base.errors import ErrorCode
from tenants.datasets.models import Dataset
from tenants.usage.models import Quota
from tenants.webhooks.models import SUBSCRIBABLE, WebhookDelivery
from tenants.webhooks.services.endpoints import webhook_create
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.selectors import queue_position, queue_positions
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.jobs.services.lifecycle import job_fail
from versiontree.tree.models import Alias, AliasMove, Version
from versiontree.tree.promotion import AGAINST, promotion_pending
from versiontree.tree.selectors.estimates import hplm_estimate
from versiontree.tree.selectors.past_jobs import EstimateRange
from versiontree.tree.services.hplms import hplm_update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]

REPORTS = {
    "fine_tune": {"dev": {"metric": "accuracy", "value": 0.7}},
    "evaluate": {"metric": "accuracy", "value": 0.6, "rows": 10},
    "quick": {"suspects": [{"row": 3, "label": "no", "suggested": "yes", "confidence": 0.97}]},
}


def quick_and_trained(
    parent: Version, home: TenantFixture, data: Dataset | None = None, **options: Any
) -> tuple[Version, Version]:
    trained = tree_factory.new_hplm(parent, "spam", home, data, quick=True, **options)
    return Version.unscoped.get(hplm=trained.hplm, number=1), trained


def do_quick(quick: Version) -> None:
    [job] = tree_factory.jobs_in_order(quick)
    tree_factory.do_job(job, **REPORTS)


def fail(job: Job) -> None:
    worker = tree_factory.claim(job)
    job_fail(job_id=job.pk, worker=worker, code="one_label", message="All rows have one label.")


def default_number(version: Version) -> int | None:
    return (
        Alias.unscoped.filter(hplm=version.hplm, name="default")
        .values_list("version__number", flat=True)
        .first()
    )


def worse(current: Version) -> dict[str, Any]:
    paired = {"rows": 20, "left_out": 0, "metric": "accuracy", "old": 0.9, "new": 0.5, "p_value": 0.01}
    return {AGAINST: {"version": current.number, "dev": paired, "test": paired}}


def test_new_model_has_a_quick_version_and_a_trained_one(domain: Version, acme: TenantFixture) -> None:
    quick, trained = quick_and_trained(domain, acme, settings={"epochs": 3})
    assert ([version.number for version in (quick, trained)], trained.is_quick, quick.is_quick) == (
        [1, 2],
        False,
        True,
    )
    assert quick.parent == trained.parent == domain
    assert quick.dataset == trained.dataset == acme.dataset
    assert [job.kind for job in tree_factory.jobs_in_order(quick)] == ["quick"]
    assert [job.kind for job in tree_factory.jobs_in_order(trained)] == ["fine_tune", "evaluate"]


def test_quick_version_answers_until_the_trained_one_is_ready(domain: Version, acme: TenantFixture) -> None:
    quick, trained = quick_and_trained(domain, acme)
    do_quick(quick)
    assert default_number(trained) == 1
    quick.refresh_from_db()
    assert quick.metrics == REPORTS
    tree_factory.do_jobs(trained)
    assert default_number(trained) == 2
    reasons = AliasMove.unscoped.filter(hplm=trained.hplm).order_by("pk").values_list("reason", flat=True)
    assert list(reasons) == ["First version", "New version, not worse than version 1 on its dev rows"]


def test_trained_version_that_is_worse_waits_for_its_owner(domain: Version, acme: TenantFixture) -> None:
    quick, trained = quick_and_trained(domain, acme)
    do_quick(quick)
    tuning, evaluating = tree_factory.jobs_in_order(trained)
    tree_factory.do_job(tuning)
    tree_factory.do_job(evaluating, **worse(quick))
    trained.refresh_from_db()
    assert (default_number(trained), trained.state) == (1, "ready")
    pending = promotion_pending(trained, quick)
    assert pending is not None
    assert "worse than version 1" in pending.reason


def test_quick_version_that_is_ready_later_does_not_take_the_alias_back(
    domain: Version, acme: TenantFixture
) -> None:
    quick, trained = quick_and_trained(domain, acme)
    tree_factory.do_jobs(trained)
    do_quick(quick)
    quick.refresh_from_db()
    assert (default_number(trained), quick.state) == (2, "ready")


def test_trained_version_takes_over_if_the_quick_one_became_ready_after_its_evaluation(
    domain: Version, acme: TenantFixture
) -> None:
    quick, trained = quick_and_trained(domain, acme)
    tuning, evaluating = tree_factory.jobs_in_order(trained)
    tree_factory.do_job(tuning)
    compared_with_nothing = {"metric": "accuracy", "value": 0.5}
    do_quick(quick)
    assert default_number(trained) == 1
    tree_factory.do_job(evaluating, **compared_with_nothing)
    assert default_number(trained) == 2


def test_model_without_automatic_promotion_keeps_its_quick_version(
    domain: Version, acme: TenantFixture
) -> None:
    quick, trained = quick_and_trained(domain, acme, auto_promote=False)
    do_quick(quick)
    tree_factory.do_jobs(trained)
    assert default_number(trained) == 1


def test_model_works_without_a_quick_version_that_failed(domain: Version, acme: TenantFixture) -> None:
    quick, trained = quick_and_trained(domain, acme)
    fail(tree_factory.jobs_in_order(quick)[0])
    tree_factory.do_jobs(trained)
    quick.refresh_from_db()
    assert (default_number(trained), quick.state) == (2, "failed")


def test_quick_version_answers_on_after_a_failed_training_and_can_be_retried(
    domain: Version, acme: TenantFixture
) -> None:
    quick, trained = quick_and_trained(domain, acme)
    [job] = tree_factory.jobs_in_order(quick)
    fail(job)
    fail(tree_factory.jobs_in_order(trained)[0])
    assert default_number(trained) is None
    job_retry(job=job, actor=None)
    do_quick(quick)
    assert default_number(trained) == 1


def test_canceled_training_leaves_the_quick_version(domain: Version, acme: TenantFixture) -> None:
    quick, trained = quick_and_trained(domain, acme)
    job_cancel(job=tree_factory.jobs_in_order(trained)[0], actor=None)
    do_quick(quick)
    assert default_number(trained) == 1


def test_generative_model_has_no_quick_version(tmp_path: Path, acme: TenantFixture) -> None:
    decoder = tree_factory.ready_decoder(tmp_path)
    data = tree_factory.dataset(acme.tenant, "replies", task="generation")
    version = tree_factory.new_hplm(decoder, "writer", acme, data, quick=True)
    assert (version.number, version.is_quick) == (1, False)


def test_update_of_a_quick_version_is_trained_from_where_that_stood(
    domain: Version, acme: TenantFixture
) -> None:
    quick, _ = quick_and_trained(domain, acme, settings={"epochs": 3, "adapter": 8})
    do_quick(quick)
    hplm = tree_factory.hplm_of(quick)
    update = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None, settings={"lora": 4, "adapter": 16})
    assert (update.number, update.parent, update.is_quick) == (3, domain, False)
    assert update.config["settings"] == {"epochs": 3, "adapter": 16, "lora": 4}
    assert "warnings" not in update.config


def test_quota_of_jobs_does_not_count_the_quick_version(domain: Version, acme: TenantFixture) -> None:
    Quota.objects.for_tenant(acme.tenant).update(max_active_jobs=1)
    refused(lambda: quick_and_trained(domain, acme), ErrorCode.QUOTA_EXCEEDED, None)
    assert not Version.objects.for_tenant(acme.tenant).filter(kind="model").exists()
    Quota.objects.for_tenant(acme.tenant).update(max_active_jobs=2)
    quick_and_trained(domain, acme)
    refused(lambda: tree_factory.new_hplm(domain, "more", acme, quick=True), ErrorCode.QUOTA_EXCEEDED, None)


def test_whoever_waits_for_the_model_hears_of_the_trained_version_only(
    domain: Version, acme: TenantFixture
) -> None:
    url = "https://example.org/"
    webhook_create(tenant=acme.tenant, url=url, kinds=SUBSCRIBABLE, actor=acme.owner)
    quick, trained = quick_and_trained(domain, acme)
    do_quick(quick)
    events = WebhookDelivery.unscoped.values_list("kind", flat=True)
    assert list(events) == ["alias.moved"]
    members = Membership.unscoped.filter(tenant=acme.tenant, user=acme.developer)
    assert members.get().unseen_jobs == 0
    tree_factory.do_jobs(trained)
    assert "job.succeeded" in list(events.all())
    assert members.get().unseen_jobs == 1


def test_quick_versions_have_a_queue_of_their_own(
    domain: Version, acme: TenantFixture, globex: TenantFixture, redis_client: redis.Redis,
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    redis_client.flushall()
    with django_capture_on_commit_callbacks(execute=True):
        quick, trained = quick_and_trained(domain, acme)
    assert redis_client.llen(f"{QUICK_QUEUE}\x06\x163") == 1
    assert redis_client.llen(f"{TRAINING_QUEUE}\x06\x163") == 1
    theirs = tree_factory.new_hplm(domain, "theirs", globex, quick=True)
    other_quick = Version.unscoped.get(hplm=theirs.hplm, number=1)
    jobs = [tree_factory.jobs_in_order(version)[0] for version in (quick, trained, theirs, other_quick)]
    assert [queue_positions(jobs)[job.pk] for job in jobs] == [1, 1, 2, 2]
    assert [queue_position(job).position for job in jobs] == [1, 1, 2, 2]


def test_estimate_tells_the_time_of_a_quick_version_apart(domain: Version, acme: TenantFixture) -> None:
    quick, _ = quick_and_trained(domain, acme)
    do_quick(quick)
    now = timezone.now()
    Job.unscoped.filter(version=quick).update(started_at=now - timedelta(seconds=9), finished_at=now)
    estimate = hplm_estimate(domain, viewer=acme.tenant)
    assert (estimate.quick_seconds, estimate.seconds) == (EstimateRange.exactly(9), None)
    assert estimate.storage_bytes is None, "of a model, not of a quick version"


def test_api_makes_quick_versions_unless_told_otherwise_and_names_them(
    domain: Version, acme: TenantFixture, key: APIClient
) -> None:
    body = {"name": "spam", "parent": domain.pk, "dataset": acme.dataset.pk}
    made = key.post(f"{V1}/models", body).json()
    assert (made["number"], made["quick"]) == (2, False)
    do_quick(Version.unscoped.get(hplm__name="spam", number=1))
    [alias] = key.get(f"{V1}/models/spam").json()["aliases"]
    assert (alias["version"], alias["quick"]) == (1, True)
    listed = key.get(f"{V1}/models/spam/versions").json()["results"]
    assert [(one["number"], one["quick"]) for one in listed] == [(2, False), (1, True)]
    plain = key.post(f"{V1}/models", {**body, "name": "ham", "quick": False}).json()
    assert (plain["number"], plain["jobs"][0]["kind"]) == (1, "fine_tune")
    estimate = key.post(f"{V1}/estimate", {**body, "name": "new"}).json()
    assert estimate["quick_seconds"]["likely"] >= 0
    assert not Job.unscoped.filter(version__hplm__name="new", kind=JobKind.QUICK).exists()
