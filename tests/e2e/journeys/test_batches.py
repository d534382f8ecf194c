"""From a file of texts to a file with their answers."""

import csv
import io

from playwright.sync_api import FilePayload, Page, expect

from inference.batches.models import Batch
from tests.background import run_batch
from tests.e2e.conftest import sign_in
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.world import World
from tests.processes import InferenceWorker

TICKETS = b"id,message\n1,my parcel has not arrived\n2,a pill for the heart\n3,\n"


def test_a_file_of_texts_comes_back_with_their_answers(
    page: Page, world: World, inference_worker: InferenceWorker
) -> None:
    person = Traveller(sign_in(page, "olga"), "a file of texts with their answers")
    person.click(page.get_by_role("link", name="Batches", exact=True))
    tickets = FilePayload(name="tickets.csv", mimeType="text/csv", buffer=TICKETS)
    person.choose_file(page.get_by_label("File", exact=True), tickets)
    person.click(page.get_by_role("button", name="Start batch"))
    expect(page.get_by_role("heading", level=1)).to_have_text("tickets.csv")
    with person.resting():
        run_batch(Batch.unscoped.get().pk)
        page.get_by_role("link", name="Download answers").wait_for()
    with page.expect_download() as download:
        person.click(page.get_by_role("link", name="Download answers"))
    assert took(person.arrived()) == (4, 0)
    answers = download.value.path().read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(answers)))
    assert [row["message"] for row in rows] == ["my parcel has not arrived", "a pill for the heart", ""]
    assert [bool(row["answer"]) for row in rows] == [True, True, False]
    assert rows[2]["error"]


def test_a_column_is_chosen_without_choosing_the_file_again(page: Page, world: World) -> None:
    sign_in(page, "olga")
    page.get_by_role("link", name="Batches", exact=True).click()
    tickets = FilePayload(name="tickets.csv", mimeType="text/csv", buffer=b"id,said\n1,a pill\n")
    page.get_by_label("File", exact=True).set_input_files(tickets)
    page.get_by_role("button", name="Start batch").click()
    page.get_by_label("Column for text").select_option("said")
    page.get_by_role("button", name="Start batch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tickets.csv")
    assert Batch.unscoped.get().columns == {"text": "said"}
