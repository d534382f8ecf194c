"""The pages of batches."""

from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

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


def test_a_named_column_is_read_and_shown(owner: Client, world: World) -> None:
    made = starts(owner, column="What happened", name="tickets.txt")
    page = owner.get(made["Location"]).content.decode()
    assert "<dt>Column</dt><dd><code>what happened</code></dd>" in page
    assert "Waiting for a free worker" in page
    assert "Unfinished rows fail after" in page
