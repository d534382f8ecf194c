"""What administrators do with domains, models and jobs beyond making them, and what asks for a name first."""

from html.parser import HTMLParser

import pytest
import redis
from django.test import Client
from django.urls import reverse

from tenants.accounts.models import User
from tenants.audit.models import AuditEvent
from tenants.base.errors import HmiError
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import act, plain
from tests.integration.versiontree.test_dispatch import messages
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.selectors import queue_positions
from versiontree.jobs.services.control import job_prioritise, message_is_stale
from versiontree.jobs.services.lifecycle import job_claim, job_heartbeat
from versiontree.tree.models import Domain, Hplm, Version
from versiontree.tree.selectors.browsing import branch_summaries
from versiontree.tree.selectors.versions import domains_visible_to, parents_ready_for, tree_for
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.serving_manifest import manifest_content

DOMAIN = "admin:tree_domain"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


@pytest.fixture
def staff(db: None, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


class Hidden(HTMLParser):
    """The hidden fields of a page, by name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden":
            self.fields.setdefault(given["name"] or "", []).append(given["value"] or "")


def verbs() -> set[str]:
    return set(AuditEvent.unscoped.values_list("verb", flat=True))


def test_nothing_is_deleted_before_its_name_is_typed_and_a_wrong_one_keeps_the_selection(
    staff: Client, root: Version, acme: TenantFixture
) -> None:
    hplms = [tree_factory.hplm_of(tree_factory.ready_hplm(root, name, acme)) for name in ("ham", "spam")]
    living = Hplm.unscoped.filter(deleted_at=None)
    asked = act(staff, "hplm", "stop_serving", *hplms)
    assert "delete 2 models" in asked
    assert "acme/ham" in asked
    for wrong in ("", "acme/ham", "delete 2 hplms", "delete 3 models"):
        page = act(staff, "hplm", "stop_serving", *hplms, typed_name=wrong)
        assert Hidden(page).fields["_selected_action"] == [str(hplm.pk) for hplm in hplms]
        assert "Nothing was changed." in page
        assert living.count() == 2
    again = {**Hidden(asked).fields, "typed_name": " delete  2 models "}
    answer = staff.post(reverse("admin:tree_hplm_changelist"), again, follow=True)
    assert "2 deleted" in plain(answer)
    assert not living.exists()


def test_action_on_all_pages_asks_for_the_number_of_rows(
    staff: Client, root: Version, acme: TenantFixture
) -> None:
    first, *_ = [tree_factory.hplm_of(tree_factory.ready_hplm(root, f"spam-{n}", acme)) for n in range(3)]
    page = act(staff, "hplm", "stop_serving", first, select_across="1")
    assert "delete 3 models" in page
    act(staff, "hplm", "stop_serving", first, select_across="1", typed_name="acme/spam-0")
    assert Hplm.unscoped.filter(deleted_at=None).count() == 3
    act(staff, "hplm", "stop_serving", first, select_across="1", typed_name="delete 3 models")
    assert not Hplm.unscoped.filter(deleted_at=None).exists()


def test_a_domain_is_retired_with_the_list_of_who_stands_on_it(
    staff: Client,
    domain: Version,
    acme: TenantFixture,
    globex: TenantFixture,
) -> None:
    for home, names in ((acme, ("ham", "spam")), (globex, ("eggs",))):
        for name in names:
            tree_factory.ready_hplm(domain, name, home)
    further = tree_factory.domain_of(heart := tree_factory.ready_domain(domain, "cardiology"))
    tree_factory.ready_hplm(heart, "apart", acme)
    owner, before = tree_factory.domain_of(domain), manifest_content()
    asked = act(staff, "domain", "retire", owner)
    for line in ("acme/ham", "acme/spam", "globex/eggs", reverse(f"{DOMAIN}_change", args=[further.pk])):
        assert line in asked
    assert Version.unscoped.get(pk=domain.pk).state == "ready"
    assert "1 retired" in act(staff, "domain", "retire", owner, typed_name=str(owner))
    assert Version.unscoped.get(pk=domain.pk).state == "retired"
    assert manifest_content() == before
    assert "domain.retire" in verbs()
    with pytest.raises(HmiError, match="only a ready one"):
        hplm_create(tenant=acme.tenant, name="new", parent=domain, dataset=acme.dataset, actor=None)
    assert "is ready to be retired" in act(staff, "domain", "retire", owner, typed_name=str(owner))


def test_a_domain_with_jobs_at_work_is_not_retired(staff: Client, domain: Version) -> None:
    owner = tree_factory.domain_of(domain)
    domain_update(domain=owner, corpus=tree_factory.corpus(None, "more"), actor=None)
    assert "still active" in act(staff, "domain", "retire", owner, typed_name=str(owner))
    assert Version.unscoped.get(pk=domain.pk).state == "ready"


def seen_by(home: TenantFixture) -> set[str]:
    """By which doors the tenant comes to a version of the domain."""
    tenant = home.tenant
    doors = {
        "domains": domains_visible_to(tenant).exists(),
        "parents": parents_ready_for(tenant).filter(kind="domain").exists(),
        "tree": any(version.kind == "domain" for version in tree_for(tenant)),
        "branches": any(brief.kind == "domain" for brief in branch_summaries(tenant)),
    }
    return {door for door, is_open in doors.items() if is_open}


def test_a_domain_that_is_kept_back_is_seen_by_nobody_until_it_is_published(
    staff: Client, root: Version, acme: TenantFixture
) -> None:
    text = tree_factory.corpus(None, "medicine")
    form = {"name": "draft", "description": "", "parent": root.pk, "corpus": text.pk, "alpha": "40"}
    staff.post(reverse("admin:tree_domain_add"), form)
    owner = Domain.unscoped.get()
    version = Version.unscoped.get(domain=owner)
    assert "is ready" in act(staff, "domain", "publish", owner)
    tree_factory.do_jobs(version)
    assert seen_by(acme) == set()
    with pytest.raises(HmiError, match="no such version"):
        hplm_create(tenant=acme.tenant, name="spam", parent=version, dataset=acme.dataset, actor=None)
    below = tree_factory.ready_domain(Version.unscoped.get(pk=version.pk), "below")
    Domain.unscoped.filter(pk=tree_factory.domain_of(below).pk).update(published_at=None)
    assert "publish that first" in act(staff, "domain", "publish", tree_factory.domain_of(below))
    assert "1 published" in act(staff, "domain", "publish", owner)
    assert seen_by(acme) == {"domains", "parents", "tree", "branches"}
    assert "domain.publish" in verbs()


def test_versions_behind_the_aliases_of_a_pinned_model_are_pinned(
    staff: Client, root: Version, acme: TenantFixture
) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    tree_factory.ready_hplm(root, "ham", acme)
    hplm = tree_factory.hplm_of(first)
    assert manifest_content()["pinned"] == []
    assert "1 pinned" in act(staff, "hplm", "pin", hplm)
    assert manifest_content()["pinned"] == [first.digest]
    second = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    assert manifest_content()["pinned"] == [second.digest]
    alias_move(hplm=hplm, name="before", version=first, actor=None)
    assert manifest_content()["pinned"] == sorted([first.digest, second.digest])
    assert "1 unpinned" in act(staff, "hplm", "unpin", hplm)
    assert manifest_content()["pinned"] == []
    assert {"model.pin", "model.unpin"} <= verbs()


@pytest.fixture
def queue(root: Version, acme: TenantFixture, redis_client: redis.Redis) -> list[Job]:
    redis_client.flushall()
    return [tree_factory.jobs_in_order(tree_factory.new_hplm(root, f"spam-{n}", acme))[0] for n in range(3)]


def places(jobs: list[Job]) -> list[int]:
    """The places of these jobs, in their order."""
    now = {job.pk: job for job in Job.unscoped.filter(pk__in=[job.pk for job in jobs])}
    return [queue_positions(now.values())[job.pk] for job in jobs]


@pytest.mark.django_db(transaction=True)
def test_jobs_are_moved_in_the_queue_and_in_that_of_the_broker(
    staff: Client, queue: list[Job], redis_client: redis.Redis
) -> None:
    assert places(queue) == [1, 2, 3]
    assert "1 set to high priority" in act(staff, "job", "high", queue[2])
    assert "1 set to lowest priority" in act(staff, "job", "lowest", queue[0])
    assert places(queue) == [3, 2, 1]
    assert messages(redis_client)[0] == repr([str(queue[2].pk)])
    assert [message_is_stale(job_id=job.pk, priority=3) for job in queue] == [True, False, True]
    assert not message_is_stale(job_id=queue[2].pk, priority=0)
    job_claim(job_id=queue[1].pk, worker="w", lease_s=30)
    assert "cannot be given another priority" in act(staff, "job", "high", queue[1])
    with pytest.raises(HmiError, match="not a priority"):
        job_prioritise(job=queue[0], priority=4, actor=None)


@pytest.mark.django_db(transaction=True)
def test_a_running_job_is_put_back_and_its_worker_finds_out(staff: Client, queue: list[Job]) -> None:
    job = queue[0]
    assert job_claim(job_id=job.pk, worker="w", lease_s=30) is not None
    assert "1 requeued" in act(staff, "job", "requeue", job)
    job.refresh_from_db()
    assert (job.state, job.attempt, job.worker) == (JobState.QUEUED, 0, "")
    with pytest.raises(HmiError, match="lost its lease"):
        job_heartbeat(job_id=job.pk, worker="w", lease_s=30)
    waiting = Job.unscoped.get(version=job.version_id, after=job)
    assert "cannot be requeued" in act(staff, "job", "requeue", waiting)
    act(staff, "job", "cancel", job)
    assert "1 requeued" in act(staff, "job", "requeue", job)
    assert Job.unscoped.get(pk=job.pk).state == JobState.QUEUED
