"""Several processes at once, on real connections: threads stand in for them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest
from django.db import connection, transaction

from tenants.base.errors import ErrorCode, HmiError
from tests.integration.sessions import by_itself, wait_for_a_waiting_session
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.jobs.services.lifecycle import job_claim, job_fail, job_succeed
from versiontree.tree.models import Alias, Version
from versiontree.tree.services.aliases import hplm_lock
from versiontree.tree.services.hplms import hplm_create, hplm_delete, hplm_update
from versiontree.tree.services.versions import version_lock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("in_platform_scope")]

Result = TypeVar("Result")


def at_once(*acts: Callable[[], Result]) -> list[Result | HmiError]:
    """Run all at the same moment in this scope, each on its own connection; typed errors are results."""
    start = Barrier(len(acts))

    def run(act: Callable[[], Result]) -> Result | HmiError:
        start.wait()
        try:
            return act()
        except HmiError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        running = [pool.submit(copy_context().run, run, act) for act in acts]
        return [act.result() for act in running]


def test_job_claimed_by_many_workers_is_given_to_one(root: Version, acme: TenantFixture) -> None:
    for round_number in range(5):
        model = tree_factory.new_hplm(root, f"model-{round_number}", acme)
        job = tree_factory.jobs_in_order(model)[0]
        claims = at_once(
            *[lambda name=f"w{n}", pk=job.pk: job_claim(job_id=pk, worker=name, lease_s=30) for n in range(8)]
        )
        winners = [claim for claim in claims if isinstance(claim, Job)]
        assert len(winners) == 1
        job.refresh_from_db()
        assert (job.attempt, job.worker) == (1, winners[0].worker)
        job_fail(job_id=job.pk, worker=job.worker, code="job_crashed", message="Enough.")


def test_a_job_that_succeeds_while_it_is_cancelled_ends_one_way_only(
    root: Version, acme: TenantFixture
) -> None:
    for round_number in range(6):
        model = tree_factory.new_hplm(root, f"model-{round_number}", acme)
        tuning, evaluating = tree_factory.jobs_in_order(model)
        worker = tree_factory.claim(tuning)
        made = tree_factory.stored("hplm")
        at_once(
            lambda: job_cancel(job=tuning, actor=None),  # noqa: B023
            lambda: job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", made)]),  # noqa: B023
        )
        tuning.refresh_from_db()
        evaluating.refresh_from_db()
        assert (tuning.state, evaluating.state) in {
            (JobState.SUCCEEDED, JobState.QUEUED),
            (JobState.CANCELLED, JobState.CANCELLED),
        }
        if evaluating.is_active:
            job_cancel(job=evaluating, actor=None)


def test_a_retry_behind_a_job_that_just_succeeds_is_not_left_waiting(
    root: Version, acme: TenantFixture
) -> None:
    for round_number in range(6):
        model = tree_factory.new_hplm(root, f"model-{round_number}", acme)
        tuning, evaluating = tree_factory.jobs_in_order(model)
        job_cancel(job=evaluating, actor=None)
        worker = tree_factory.claim(tuning)
        made = tree_factory.stored("hplm")
        at_once(
            lambda: job_retry(job=evaluating, actor=None),  # noqa: B023
            lambda: job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", made)]),  # noqa: B023
        )
        evaluating.refresh_from_db()
        assert evaluating.state == JobState.QUEUED
        assert tree_factory.do_jobs(model).state == "ready"


def test_promotion_waits_for_a_change_of_its_model_and_holds_no_version_meanwhile(
    root: Version, acme: TenantFixture
) -> None:
    """Model before version, everywhere: else both would wait for each other."""
    hplm = tree_factory.hplm_of(tree_factory.ready_hplm(root, "spam", acme))
    tuning, evaluating = tree_factory.jobs_in_order(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    tree_factory.do_job(tuning)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            hplm_lock(hplm=hplm)
            promoting = pool.submit(copy_context().run, by_itself, tree_factory.do_job, evaluating)
            wait_for_a_waiting_session()
            version_lock(version_id=evaluating.version.pk)
        promoting.result()
    assert Alias.unscoped.get(hplm=hplm, name="default").version.number == 2


def test_of_a_quick_and_a_trained_version_that_end_at_once_the_trained_one_answers(
    root: Version, acme: TenantFixture
) -> None:
    for round_number in range(6):
        trained = tree_factory.new_hplm(root, f"model-{round_number}", acme, quick=True)
        quick = Version.unscoped.get(hplm=trained.hplm, number=1)
        tuning, evaluating = tree_factory.jobs_in_order(trained)
        tree_factory.do_job(tuning)
        [fitting] = tree_factory.jobs_in_order(quick)
        made = [("hplm", tree_factory.stored("hplm"))]
        ends = [
            partial(
                job_succeed, job_id=job.pk, worker=tree_factory.claim(job), metrics={}, artifacts=artifacts
            )
            for job, artifacts in ((evaluating, []), (fitting, made))
        ]
        at_once(*ends)
        assert Alias.unscoped.get(hplm=trained.hplm, name="default").version == trained
        assert set(Version.unscoped.filter(hplm=trained.hplm).values_list("state", flat=True)) == {"ready"}


def test_models_created_at_once_get_one_name_once(root: Version, acme: TenantFixture) -> None:
    results = at_once(
        *[
            lambda: hplm_create(
                tenant=acme.tenant, name="spam", parent=root, dataset=acme.dataset, actor=None
            )
            for _ in range(4)
        ]
    )
    codes = [result.code for result in results if isinstance(result, HmiError)]
    assert codes == [ErrorCode.CONFLICT] * 3
    assert Version.objects.for_tenant(acme.tenant).count() == 1


def test_updates_at_once_get_numbers_of_their_own(root: Version, acme: TenantFixture) -> None:
    model = tree_factory.ready_hplm(root, "spam", acme)
    hplm = tree_factory.hplm_of(model)
    at_once(*[lambda: hplm_update(hplm=hplm, dataset=acme.dataset, actor=None) for _ in range(4)])
    numbers = Version.unscoped.filter(hplm=hplm).order_by("number").values_list("number", flat=True)
    assert list(numbers) == [1, 2, 3, 4, 5]


def test_an_hplm_is_not_deleted_under_an_update(root: Version, acme: TenantFixture) -> None:
    for round_number in range(4):
        model = tree_factory.ready_hplm(root, f"model-{round_number}", acme)
        hplm = tree_factory.hplm_of(model)
        deleted, updated = at_once(
            lambda: hplm_delete(hplm=hplm, actor=None),  # noqa: B023
            lambda: hplm_update(hplm=hplm, dataset=acme.dataset, actor=None),  # noqa: B023
        )
        assert isinstance(deleted, HmiError) != isinstance(updated, HmiError)
        if isinstance(updated, Version):
            job_cancel(job=tree_factory.jobs_in_order(updated)[0], actor=None)
