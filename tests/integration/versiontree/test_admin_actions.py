"""What is done in the admin from lists and by buttons: jobs, versions, domains, models, aliases,
artifacts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from inference.api.admission import close_gateway
from tenants.accounts.models import User
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import act, plain
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.lifecycle import job_event, job_fail, job_heartbeat
from versiontree.tree.models import Alias, AliasMove, Hplm, Version
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.hplms import hplm_update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


@pytest.fixture
def staff(db: None, client: Client) -> Iterator[Client]:
    client.force_login(User.objects.create_superuser("boss"))
    yield client
    close_gateway()  # the first page asks the queue


def test_jobs_are_cancelled_and_retried_by_actions(staff: Client, root: Version, acme: TenantFixture) -> None:
    job = tree_factory.jobs_in_order(tree_factory.new_hplm(root, "spam", acme))[0]
    assert "1 canceled" in act(staff, "job", "cancel", job)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert "cannot be canceled" in act(staff, "job", "cancel", job)
    assert "1 retried" in act(staff, "job", "retry", job)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    both = [job, tree_factory.jobs_in_order(tree_factory.new_hplm(root, "ham", acme))[0]]
    assert '<code dir="auto">cancel 2 jobs</code>' in act(staff, "job", "cancel", *both)
    assert {one.state for one in Job.unscoped.filter(pk__in=[one.pk for one in both])} == {JobState.QUEUED}
    assert "2 canceled" in act(staff, "job", "cancel", *both, typed_name="cancel 2 jobs")


def test_the_page_of_a_job_tells_how_far_it_is_until_it_ends_and_folds_what_it_measured(
    staff: Client, root: Version, acme: TenantFixture
) -> None:
    job = tree_factory.jobs_in_order(tree_factory.new_hplm(root, "spam", acme))[0]
    worker = tree_factory.claim(job)
    job_event(job_id=job.pk, kind="metrics", data={"loss": 2.5})
    page = reverse("admin:jobs_job_change", args=[job.pk])
    part = {"HX-Request": "true"}
    shown = staff.get(page).content.decode()
    assert f'hx-get="{page}"' in shown
    assert "Fine-tune" in shown
    assert "&quot;loss&quot;" not in shown
    job_heartbeat(
        job_id=job.pk,
        worker=worker,
        lease_s=60,
        progress=0.4,
        stage="reading",
        eta=200,
        metrics={"loss": 1.0799999},
    )
    told = " ".join(plain(staff.get(page, headers=part)).split())
    assert told == "Running 40 %, reading, about 3 minutes left"
    folded = staff.get(page).content.decode().partition("<details><summary>Show</summary>")[2]
    assert "&quot;loss&quot;: 1.08\n" in folded
    job_fail(job_id=job.pk, worker=worker, code="out_of_memory", message="It did not fit.")
    assert staff.get(page, headers=part).headers["HX-Refresh"] == "true"
    ended = staff.get(page).content.decode()
    assert ("It did not fit." in ended, "hx-get" in ended.partition('id="job-now"')[2][:200]) == (True, False)


def test_a_failed_version_is_retried_by_an_action(staff: Client, root: Version, acme: TenantFixture) -> None:
    version = tree_factory.new_hplm(root, "spam", acme)
    job_cancel(job=tree_factory.jobs_in_order(version)[0], actor=None)
    assert "1 retried" in act(staff, "version", "retry", version)


def test_the_tables_of_a_domain_are_compacted_by_an_action(staff: Client, domain: Version) -> None:
    owner = tree_factory.domain_of(domain)
    assert "no such chain of tables" in act(staff, "domain", "compact", owner)
    tree_factory.do_jobs(domain_update(domain=owner, corpus=tree_factory.corpus(None, "more"), actor=None))
    assert "1 compacting" in act(staff, "domain", "compact", owner)
    compacted = Version.unscoped.get(domain=owner, number=3)
    assert compacted.created_by == User.objects.get(username="boss")
    assert [job.kind for job in tree_factory.jobs_in_order(compacted)] == ["compact"]
    assert "Version 3 of biomedicine is being built." in act(staff, "domain", "compact", owner)


def test_an_hplm_is_deleted_by_an_action(staff: Client, root: Version, acme: TenantFixture) -> None:
    version = tree_factory.ready_hplm(root, "spam", acme)
    assert "1 deleted" in act(
        staff, "hplm", "stop_serving", tree_factory.hplm_of(version), typed_name="acme/spam"
    )
    assert Hplm.unscoped.get().deleted_at is not None


def test_saving_an_alias_moves_it(staff: Client, root: Version, acme: TenantFixture) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    tree_factory.do_jobs(hplm_update(hplm=tree_factory.hplm_of(first), dataset=acme.dataset, actor=None))
    alias = Alias.unscoped.get()
    change = reverse("admin:tree_alias_change", args=[alias.pk])
    refused = staff.post(change, {"version": first.pk, "reason": " "})
    assert refused.context["adminform"].form.errors == {"reason": ["This field is required."]}
    assert staff.post(change, {"version": first.pk, "reason": "rollback"}).status_code == 302
    alias.refresh_from_db()
    assert alias.version == first
    assert AliasMove.unscoped.latest("moved_at").reason == "rollback"


def test_artifacts_are_verified_by_an_action(staff: Client, root: Version, artifact_root: Path) -> None:
    row = root.artifact_links.get(role="plot").artifact
    assert "1 verified" in act(staff, "artifact", "verify", row)
    (artifact_root / "plot" / row.digest[:2] / row.digest / "plot.json").unlink()
    assert "changed on disk" in act(staff, "artifact", "verify", row)
