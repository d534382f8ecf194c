"""The shares of time that the stages of past jobs took."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tenants.base.scope import platform_scope
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import Version
from versiontree.tree.selectors.past_jobs import stage_shares

pytestmark = pytest.mark.usefixtures("in_acme_scope")

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
