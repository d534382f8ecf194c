"""The pages of batches."""

from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from inference.batches.models import Batch
from tests.e2e.world import World

PAGE = "/t/acme/batches/"
TICKETS = b"id;what happened\n1;my parcel\n2;a pill\n"


def starts(owner: Client, content: bytes = TICKETS, name: str = "tickets.csv", **fields: str) -> Any:
    return owner.post(PAGE, {"model": "triage", "file": SimpleUploadedFile(name, content), **fields})


def test_the_form_names_a_model_and_the_next_one_that_of_the_last_batch(owner: Client, world: World) -> None:
    assert owner.get(PAGE).context["form"].initial["model"] == "triage"
    starts(owner, b"text\na pill\n", model="triage:1")
    assert owner.get(PAGE).context["form"].initial["model"] == "triage:1"


def test_a_column_that_cannot_be_guessed_is_chosen_from_those_of_the_file(
    owner: Client, world: World
) -> None:
    refused = starts(owner)
    [error] = refused.context["form"]["column_text"].errors
    assert error == "Choose the column for text. The file has: id, what happened."
    assert '<option value="what happened">what happened</option>' in refused.content.decode()
    assert not Batch.unscoped.exists()
    assert starts(owner, column_text="what happened").status_code == 302
    assert Batch.unscoped.get().columns == {"text": "what happened"}


def test_after_a_change_of_the_model_its_own_columns_are_asked_for(owner: Client, world: World) -> None:
    asked = starts(owner)
    assert asked.context["form"]["columns_of"].value() == "triage"
    again = starts(owner, model="triage:1", column_question="id", columns_of="triage")
    assert "column_question" not in again.context["form"].fields
    assert again.context["form"]["column_text"].errors


def test_a_batch_that_ended_is_no_longer_canceled_but_deleted(owner: Client, world: World) -> None:
    address = starts(owner, column="What happened")["Location"]
    polled = {"HX-Request": "true"}
    assert "batch-actions" not in owner.get(address, headers=polled).content.decode()
    Batch.unscoped.update(state="cancelled", finished_at=timezone.now())
    page = owner.get(address, headers=polled).content.decode()
    assert ("Delete this batch?" in page, "Cancel this batch?" in page) == (True, False)


def test_a_named_column_is_read_and_shown(owner: Client, world: World) -> None:
    made = starts(owner, column="What happened", name="tickets.txt")
    page = owner.get(made["Location"]).content.decode()
    assert "<dt>Column</dt><dd><code>what happened</code></dd>" in page
    assert "Waiting for a free worker" in page
    assert "Unfinished rows fail after" in page
