"""The page of a job: its place in the queue, phases, whole log and clone; and when it has changed."""

import re

import pytest
from django.test import Client

from tests.e2e.world import WORKER, World, report, start
from tests.integration.frontend.reading import Page
from tests.integration.versiontree.grove import jobs_in_order
from versiontree.models import Job, JobEvent, Version
from versiontree.queue_selectors import job_marks, queue_places
from versiontree.services.domains import domain_create
from versiontree.services.hplms import hplm_create, hplm_update
from versiontree.services.jobs import job_cancel, job_event, job_fail


def made(world: World, name: str) -> list[Job]:
    """The jobs of a new hPLM."""
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
    assert queue_places([*second, *first]) == {first[0].pk: 1, second[0].pk: 2}
    start(first[0])
    assert queue_places([*map(again, first), *second]) == {second[0].pk: 1}


def test_the_place_in_the_queue_stands_on_the_page_of_a_job_and_on_the_home_page(
    owner: Client, world: World
) -> None:
    made(world, "one")
    second = made(world, "two")[0]
    assert ("Place in the queue", "2 1 before it") in Page(page_of(owner, second)).facts
    assert "number 2 in the queue" in owner.get("/t/acme/").content.decode()


def test_the_mark_of_a_job_differs_exactly_when_its_page_would(world: World) -> None:
    ahead, job = made(world, "one")[0], made(world, "two")[0]
    words: list[str] = []

    def look() -> None:
        words.append(job_marks([job.pk])[job.pk].word)

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
    assert not job_marks([job.pk])[job.pk].ended
    assert job_marks([jobs_in_order(world.hplm)[0].pk]).popitem()[1].ended


def test_the_phases_of_the_last_attempt_are_told_in_order(owner: Client, world: World) -> None:
    job = made(world, "one")[0]
    for attempt in (["look up", "fine-tune"], ["look up", "look up", "fine-tune"]):
        job_event(job_id=job.pk, kind="running")
        for phase in attempt:
            job_event(job_id=job.pk, kind="stage", message=phase)
    assert re.findall(r"<li[^>]*>(Look up|Fine-tune) ", page_of(owner, job)) == ["Look up", "Fine-tune"]


def test_a_failure_is_told_with_where_it_was_and_what_to_do(owner: Client, world: World) -> None:
    job = made(world, "one")[0]
    start(job, 0.4, "fine-tune")
    job_fail(job_id=job.pk, worker=WORKER, code="training_diverged", message="The loss is not a number.")
    page = page_of(owner, job)
    assert "The loss is not a number." in page
    facts = dict(Page(page).facts)
    assert facts["Where"].startswith("in “fine-tune”, 40.0% of the way, attempt 1 of 3, ")
    assert facts["What to do"] == "Try again with a smaller learning rate."
    assert facts["Code"] == "training_diverged"
    assert page.count("Not begun") == 1, "the step after it, which nobody cancelled"
    assert "Cancelled" not in page


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


def clone_link(client: Client, job: Job) -> str:
    """Where the job's page leads."""
    link = re.search(r'href="([^"]+)">Clone<', page_of(client, job))
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


def test_a_further_version_is_cloned_into_the_form_of_a_further_version(owner: Client, world: World) -> None:
    assert world.hplm.hplm is not None
    more = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, settings={"epochs": 3}, actor=world.owner)
    job = jobs_in_order(more)[0]
    assert clone_link(owner, job) == f"/t/acme/hplms/triage/update/?dataset={world.dataset.pk}&epochs=3"
    assert filled(owner, job)["epochs"] == "3"


def test_what_was_made_from_nothing_that_is_there_cannot_be_cloned(owner: Client, world: World) -> None:
    Version.unscoped.filter(pk=world.hplm.pk).update(dataset=None)
    assert ">Clone<" not in page_of(owner, jobs_in_order(world.hplm)[0])


@pytest.mark.parametrize(
    ("state", "shown"), [("succeeded", "Fine-tune"), ("failed", "No job ended like this")]
)
def test_the_list_of_finished_jobs_shows_one_state_if_asked(
    owner: Client, world: World, state: str, shown: str
) -> None:
    assert shown in owner.get(f"/t/acme/jobs/?state={state}").content.decode()
