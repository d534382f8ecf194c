"""What pages show, and what they cost."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.e2e.world import World, nothing_of_use, tickets_file, versions_finish
from tests.integration.versiontree.grove import jobs_in_order
from versiontree.services.hplms import hplm_create
from versiontree.services.jobs import job_claim


def queries(client: Client, address: str) -> int:
    """How many queries a page costs."""
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    return len(seen)


@pytest.mark.parametrize("page", ["", "tree/", "jobs/", "data/", "try/", "hplms/new/"])
def test_a_page_costs_no_more_queries_when_there_is_more_to_show(
    owner: Client, world: World, page: str
) -> None:
    address = f"/t/acme/{page}"
    before = queries(owner, address)
    for number in range(3):
        more = hplm_create(
            tenant=world.tenant,
            name=f"more-{number}",
            parent=world.root,
            dataset=world.dataset,
            actor=world.owner,
        )
        versions_finish(more, files=nothing_of_use)
    assert queries(owner, address) == before


def test_the_live_part_of_a_running_job_asks_again_and_that_of_an_ended_one_does_not(
    owner: Client, world: World
) -> None:
    running = hplm_create(
        tenant=world.tenant, name="slow", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    polls = 'hx-trigger="every 1s"'
    for version, expected in ((running, True), (world.hplm, False)):
        page = owner.get(f"/t/acme/jobs/{jobs_in_order(version)[0].pk}/progress/").content.decode()
        assert (polls in page) is expected


def test_a_job_that_has_not_named_its_stage_waits_or_starts(owner: Client, world: World) -> None:
    version = hplm_create(
        tenant=world.tenant, name="early", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    assert "waiting its turn" in owner.get("/t/acme/jobs/").content.decode()
    job_claim(job_id=jobs_in_order(version)[0].pk, worker="test-worker", lease_s=60)
    assert "<small>starting</small>" in owner.get("/t/acme/jobs/").content.decode()


def test_a_form_that_cannot_be_filled_in_says_what_to_do_first(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    page = client.get("/t/umbra/hplms/new/").content.decode()
    assert "Upload a dataset first" in page


def test_what_is_wrong_with_a_file_stands_at_its_field_folded_away_or_not(
    owner: Client, world: World
) -> None:
    upload = {"name": "Tickets of May", "task": "classification"}
    good = SimpleUploadedFile("train.jsonl", tickets_file().getvalue())
    bad = SimpleUploadedFile("test.csv", b"\x89PNG\r\n\x1a\n")
    page = owner.post("/t/acme/data/datasets/new/", upload | {"train": good, "test": bad})
    assert list(page.context["form"].errors) == ["test"]
    assert '<details class="more" open>' in page.content.decode()
    fresh = owner.get("/t/acme/data/datasets/new/")
    assert '<details class="more">' in fresh.content.decode()


def test_what_is_not_on_offer_cannot_be_chosen(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    foreign = {"name": "mine", "dataset": world.dataset.pk, "parent": world.domain.pk}
    answer = client.post("/t/umbra/hplms/new/", foreign)
    assert answer.status_code == 200
    assert "not one of the available choices" in answer.content.decode()


def test_a_dataset_in_use_stays_and_the_page_says_why(owner: Client, world: World) -> None:
    answer = owner.post(f"/t/acme/data/datasets/{world.dataset.pk}/delete/", follow=True)
    assert "is in use and stays" in answer.content.decode()
    assert "Tickets" in owner.get("/t/acme/data/").content.decode()


def test_a_corpus_that_nobody_uses_is_deleted(owner: Client, world: World) -> None:
    answer = owner.post(f"/t/acme/data/corpora/{world.corpus.pk}/delete/", follow=True)
    assert "The corpus Leaflets is deleted." in answer.content.decode()
    assert "Leaflets" not in owner.get("/t/acme/data/").content.decode()


def test_an_error_page_names_status_code_and_reason(owner: Client, world: World) -> None:
    answer = owner.get("/t/acme/hplms/absent/")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert "404 · not_found" in page
    assert "There is no such hPLM." in page
