"""The page of a job: its place in the queue, phases, whole log and clone; and when it has changed."""

import gc
import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from frontend.job_stream import Subscription, stream_response
from inference.api.pending_response import ON_EVENT_LOOP
from tenants.accounts.models import Membership
from tenants.base.upload_concurrency import MAX_CONCURRENT_STREAMS
from tests.e2e.world import WORKER, World, nothing_of_use, report, start, versions_finish
from tests.integration.frontend.reading import Page
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.selectors import job_revisions, queue_positions
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.lifecycle import job_event, job_fail
from versiontree.tree.models import Version
from versiontree.tree.selectors import readiness
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create, hplm_update


def made(world: World, name: str) -> list[Job]:
    """The jobs of a new model."""
    version = hplm_create(
        tenant=world.tenant, name=name, parent=world.root, dataset=world.dataset, actor=world.owner
    )
    return jobs_in_order(version)


def page_of(client: Client, job: Job) -> str:
    return client.get(f"/t/acme/jobs/{job.pk}/").content.decode()


def again(job: Job) -> Job:
    return Job.unscoped.get(pk=job.pk)


def test_who_came_first_is_served_first_and_jobs_that_wait_for_another_have_no_place(world: World) -> None:
    first, second = made(world, "one"), made(world, "two")
    assert queue_positions([*second, *first]) == {first[0].pk: 1, second[0].pk: 2}
    start(first[0])
    assert queue_positions([*map(again, first), *second]) == {second[0].pk: 1}


def test_a_job_that_takes_longer_than_all_past_ones_says_so(owner: Client, world: World) -> None:
    job = made(world, "slow")[0]
    took(fine_tune=3600)
    start(job)
    assert "longer than usual" not in page_of(owner, job)
    Job.unscoped.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(days=1))
    told = "This job takes longer than usual. Past jobs of its kind on this machine took about 60 minutes."
    assert told in page_of(owner, job)


def test_the_mark_of_a_job_differs_exactly_when_its_page_would(world: World) -> None:
    ahead, job = made(world, "one")[0], made(world, "two")[0]
    words: list[str] = []

    def look() -> None:
        words.append(job_revisions([job.pk])[job.pk].word)

    look()
    start(ahead)  # its place in the queue is another now
    look()
    start(job)
    look()
    report(job, 0.5, "train")
    look()
    job_event(job_id=job.pk, kind="note", message="hello")
    look()
    job_cancel(job=again(job), actor=world.owner)
    look()
    assert len(set(words)) == len(words)
    look()
    assert words[-1] == words[-2]
    assert not job_revisions([job.pk])[job.pk].ended
    assert job_revisions([jobs_in_order(world.hplm)[0].pk]).popitem()[1].ended


def test_the_phases_of_the_last_attempt_are_told_in_order(owner: Client, world: World) -> None:
    job = made(world, "one")[0]
    for attempt in (["look up", "fine-tune"], ["look up", "look up", "fine-tune"]):
        job_event(job_id=job.pk, kind="running")
        for phase in attempt:
            job_event(job_id=job.pk, kind="stage", message=phase)
    assert re.findall(r"<li[^>]*>(Preparing data|Training) ", page_of(owner, job)) == [
        "Preparing data",
        "Training",
    ]


def test_a_failure_is_told_with_where_it_was_and_what_to_do(owner: Client, world: World) -> None:
    job = made(world, "one")[0]
    start(job, 0.4, "fine-tune")
    job_fail(job_id=job.pk, worker=WORKER, code="training_diverged", message="The loss is not a number.")
    page = page_of(owner, job)
    assert "The loss is not a number." in page
    facts = dict(Page(page).facts)
    assert facts["Where"].startswith("phase “training”, at 40.0%, attempt 1 of 3")
    assert facts["What to do"] == "Train again with a smaller learning rate."
    assert facts["Code"] == "training_diverged"
    of_version = owner.get("/t/acme/models/one/versions/1/").content.decode()
    assert "The loss is not a number." in of_version
    made_by = of_version.partition("<h2>Jobs</h2>")[2]
    assert re.findall(r'/">([^<]+)</a></td><td class="end"><span[^>]*>([^<]+)<', made_by) == [
        ("Fine-tune", "Failed"),
        ("Evaluate", "Skipped"),
    ]
    assert page.count("Skipped") == 1, "the step after it, which nobody cancelled"
    assert "Canceled" not in page + of_version


def took(**seconds: int) -> None:
    """As if each job of these kinds that is done had taken so long."""
    for kind, one in seconds.items():
        began = F("finished_at") - timedelta(seconds=one)
        Job.unscoped.filter(kind=kind, state="succeeded").update(started_at=began)


def ready(client: Client, job: Job, what: str = "Model") -> list[str]:
    """When the page of the job says that all of it will be ready."""
    return Page(page_of(client, job)).all_of(f"{what} ready in")


def test_a_job_tells_when_its_hplm_will_be_ready_where_that_can_be_told(
    owner: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(world, "one")
    assert len(ready(owner, first[0])) == 1, "as the first model of this world took"
    for name in ("two", "three"):
        versions_finish(made(world, name)[0].version, files=nothing_of_use)
    took(fine_tune=60, evaluate=10)
    assert ready(owner, first[0]) == ready(owner, first[1]) == ["about 70 seconds"]
    behind = made(world, "four")
    assert ready(owner, behind[0]) == ["about 2 minutes"], "once the one before it is done"
    start(first[0], 0.0, "")
    with monkeypatch.context() as at_once:  # after a second it would be 90
        begun = again(first[0]).started_at
        at_once.setattr(readiness, "timezone", SimpleNamespace(now=lambda: begun))
        assert ready(owner, first[0]) == ["about 70 seconds"], "it has only begun"
    report(first[0], 0.1, "train")
    assert ready(owner, first[0]) == [], "its time left has not settled"
    report(first[0], 0.2, "train", 3600)
    assert ready(owner, first[0]) == ready(owner, first[1]) == ["about 60 minutes"]
    assert ready(owner, behind[0]) == ["about 60 minutes"]
    job_cancel(job=again(first[0]), actor=world.owner)
    assert ready(owner, first[0]) == [], "it is being stopped"
    untold = {"cancel_requested_at": None, "eta_seconds": None}
    Job.unscoped.filter(pk=first[0].pk).update(
        **untold, progress=0, started_at=timezone.now() - timedelta(hours=1)
    )
    assert ready(owner, first[0]) == [], "it takes longer than any did"
    job_cancel(job=behind[0], actor=world.owner)
    assert ready(owner, behind[0]) == []
    assert world.hplm.hplm is not None
    more = jobs_in_order(hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner))
    assert len(ready(owner, more[0], "v2")) == 1
    assert ready(owner, more[0]) == [], "the model answers already"


def test_the_list_of_jobs_is_searched_and_sorted(owner: Client, world: World) -> None:
    second = made(world, "second")
    versions_finish(second[0].version, files=nothing_of_use)
    began = timezone.now() - timedelta(days=1)
    for number, job in enumerate([*jobs_in_order(world.hplm), *second]):
        started = began + timedelta(minutes=number)
        ended = started + timedelta(seconds=(60, 10, 70, 3600)[number])
        Job.unscoped.filter(pk=job.pk).update(started_at=started, finished_at=ended)

    def listed(query: str) -> list[tuple[str, str]]:
        return [(row.title, row.subject) for row in owner.get(f"/t/acme/jobs/?{query}").context["finished"]]

    old, new = ("triage v1", "second v1")
    tune, judge = "Fine-tune", "Evaluate"
    newest = [(judge, new), (tune, new), (judge, old), (tune, old)]
    assert listed("") == listed("sort=none&kind=none&state=none&page=9") == newest
    assert listed("sort=oldest") == newest[::-1]
    assert listed("sort=longest") == [(judge, new), (tune, new), (tune, old), (judge, old)]
    assert listed("sort=oldest&kind=evaluate") == [(judge, old), (judge, new)]
    assert listed("sort=longest&state=succeeded&q=SECO") == [(judge, new), (tune, new)]
    assert listed("state=failed") == []


def test_the_log_has_every_event_once_page_by_page(owner: Client, world: World) -> None:
    job = made(world, "one")[0]
    JobEvent.unscoped.bulk_create(JobEvent(job=job, kind="note", message=f"note {n}.") for n in range(450))
    pages = [owner.get(f"/t/acme/jobs/{job.pk}/log/?page={n}").content.decode() for n in (1, 2, 3)]
    assert re.findall(r"note (\d+)\.", "".join(pages)) == [str(n) for n in reversed(range(450))]


def test_a_stream_is_offered_only_by_a_server_that_spends_no_thread_on_it(
    owner: Client, world: World
) -> None:
    running = made(world, "one")[0]
    assert owner.get(f"/t/acme/jobs/{running.pk}/live/").status_code == 204


def test_a_tenant_has_a_share_of_the_streams_and_others_have_theirs(world: World) -> None:
    job, globex = made(world, "one")[0], Membership.unscoped.get(user=world.stranger).tenant
    owner, viewer = Client(), Client()
    owner.force_login(world.owner)
    viewer.force_login(world.viewer)

    def follow(client: Client) -> Any:
        as_web_server: dict[str, Any] = {ON_EVENT_LOOP: True}
        return client.get(f"/t/acme/jobs/{job.pk}/live/", **as_web_server)

    streams = [follow(client) for client in [owner, viewer] * (MAX_CONCURRENT_STREAMS // 2)]
    assert {stream.status_code for stream in streams} == {200}
    for client in (owner, viewer):
        refused = follow(client)
        assert (refused.status_code, refused["Retry-After"]) == (429, "5")
        assert f"at most {MAX_CONCURRENT_STREAMS} of each tenant" in refused.content.decode()
    elsewhere = stream_response(Subscription(job.pk, 0), "", tenant=globex)
    assert elsewhere.status_code == 200
    streams.pop()  # nobody holds it any more, as after the end of its connection
    gc.collect()
    assert follow(owner).status_code == 200


def clone_link(client: Client, job: Job) -> str:
    """Where the job's page leads."""
    link = re.search(r'href="([^"]+)">Train again with these settings<', page_of(client, job))
    assert link is not None
    return link[1].replace("&amp;", "&")


def filled(client: Client, job: Job) -> dict[str, str | None]:
    """What the form has in its fields that the job's page leads to."""
    form = client.get(clone_link(client, job)).context["form"]
    return {name: form[name].value() for name in form.fields if form[name].value() not in (None, "")}


def test_a_domain_is_cloned_with_its_corpus_coverage_and_settings(owner: Client, world: World) -> None:
    version = domain_create(
        tenant=world.tenant,
        parent=world.root,
        name="pharmacy",
        corpus=world.corpus,
        alpha=40,
        settings={"tokens": 5000},
        vectors="int8",
        actor=world.owner,
    )
    found = filled(owner, jobs_in_order(version)[0])
    assert found == {
        "name": "pharmacy-2",
        "parent": str(world.root.pk),
        "corpus": str(world.corpus.pk),
        "alpha": "40.0",
        "tokens": "5000",
        "vectors": "int8",
    }


def test_what_was_made_from_nothing_that_is_there_cannot_be_cloned(owner: Client, world: World) -> None:
    Version.unscoped.filter(pk=world.hplm.pk).update(dataset=None)
    assert ">Train again with these settings<" not in page_of(owner, jobs_in_order(world.hplm)[0])
