"""The pages of decoder roots, generative models and their data."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from inference.batches.models import Batch
from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tests.e2e.world import World, nothing_of_use, versions_finish
from tests.integration.frontend.reading import Page
from tests.integration.tenants.content import stream
from tests.unit.tenants.files import jsonl
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind, Version
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register
from versiontree.tree.training_settings import DECODER_SETTING_SPECS

NEW = "/t/acme/models/new/"
BATCHES = "/t/acme/batches/"
COPIED = {"family": "llama", "layers": 30, "lower_layers": 10, "parameters": 134_515_008}
MEASURED = {"metric": "rouge_l", "value": 0.61, "bleu": 0.2, "exact_match": 0.1, "majority_baseline": 0.05}


@pytest.fixture
def decoder(world: World) -> Version:
    """A decoder that is ready."""
    version = root_register(name="smol", kind=RootKind.DECODER, source="acme/smol", actor=world.admin)
    versions_finish(version, {"convert": COPIED}, files=nothing_of_use)
    return Version.unscoped.get(pk=version.pk)


def upload(world: World, name: str, task: str, rows: list[dict[str, Any]]) -> Dataset:
    files = {"train": (f"{name}.jsonl", stream(jsonl(rows)))}
    return dataset_upload(tenant=world.tenant, name=name, task=task, files=files, actor=world.owner)


def prompts(world: World) -> Dataset:
    rows = [{"prompt": f"Describe {number}: ", "completion": f"It is {number}."} for number in range(40)]
    return upload(world, "prompts", "generation", rows)


def chats(world: World) -> Dataset:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {number}?"},
                {"role": "assistant", "content": f"A number, {number}."},
            ]
        }
        for number in range(40)
    ]
    return upload(world, "chats", "chat", rows)


def text_of(browser: Client, address: str, **query: Any) -> str:
    answer = browser.get(address, query)
    assert answer.status_code == 200, address
    page: str = answer.content.decode()
    return page


def test_the_pages_of_a_generative_model_have_no_policy_and_a_request_for_completions(
    owner: Client, world: World, decoder: Version
) -> None:
    version = hplm_create(
        tenant=world.tenant, name="writer", parent=decoder, dataset=prompts(world), actor=world.owner
    )
    versions_finish(version, {"evaluate": MEASURED}, files=nothing_of_use)
    page = text_of(owner, "/t/acme/models/writer/versions/1/")
    assert "ROUGE-L" in page
    assert "61.0%" in page
    assert "choose no quality" not in page
    assert "format=peft" in page
    assert "/v1/completions" in text_of(owner, "/t/acme/models/writer/")
    assert "Decoder" in text_of(owner, "/t/acme/roots/smol/versions/1/")
    for job in version.jobs.all():
        assert "LoRA" in text_of(owner, f"/t/acme/jobs/{job.pk}/") or job.kind == "evaluate"


def test_the_wizard_offers_the_decoders_and_their_settings(
    owner: Client, world: World, decoder: Version
) -> None:
    data = prompts(world)
    parents = text_of(owner, NEW, step="parent", dataset=data.pk)
    chosen = [one["value"] for one in Page(parents).tags["input"] if one.get("name") == "parent"]
    assert chosen == [str(decoder.pk)]
    assert "Measuring" not in parents
    settings = text_of(owner, NEW, step="settings", dataset=data.pk, parent=decoder.pk)
    fields = Page(settings).tags
    shown = {one.get("name") for tag in ("input", "select") for one in fields[tag]}
    assert shown >= set(DECODER_SETTING_SPECS[JobKind.FINE_TUNE])
    assert "full_context_share" not in shown
    filled = {"dataset": data.pk, "parent": decoder.pk, "name": "writer", "lora": "8", "projections": "all"}
    assert owner.post(NEW, filled).status_code == 302
    made = Version.unscoped.get(hplm__name="writer")
    assert made.config["settings"] == {"lora": 8, "projections": "all"}


def test_the_wizard_offers_no_decoder_for_labels(owner: Client, world: World, decoder: Version) -> None:
    parents = text_of(owner, NEW, step="parent", dataset=world.dataset.pk)
    assert "smol" not in parents


def test_data_shows_prompts_with_completions_and_conversations(owner: Client, world: World) -> None:
    page = text_of(owner, f"/t/acme/data/datasets/{prompts(world).pk}/")
    assert "Prompt and completion" in page
    assert "It is" in page
    assert "Words per completion" in page
    page = text_of(owner, f"/t/acme/data/datasets/{chats(world).pk}/")
    assert "user: What is" in page
    assert "assistant: A number" in page


def test_a_batch_of_a_generative_model_is_started_on_the_page_that_says_what_a_line_is(
    owner: Client, world: World, decoder: Version
) -> None:
    version = hplm_create(
        tenant=world.tenant, name="writer", parent=decoder, dataset=prompts(world), actor=world.owner
    )
    versions_finish(version, {"evaluate": MEASURED}, files=nothing_of_use)
    page = text_of(owner, BATCHES)
    assert "For a generative model, each line is a prompt" in page
    assert "an object with prompt or messages" in page
    lines = jsonl([{"prompt": "Describe 7: ", "max_tokens": 5, "id": "seven"}])
    file = SimpleUploadedFile("prompts.jsonl", lines.encode())
    answer = owner.post(BATCHES, {"model": "writer", "file": file})
    batch = Batch.unscoped.get()
    assert (batch.model_name, batch.version_number, batch.filename) == ("writer", 1, "prompts.jsonl")
    assert answer["Location"] == f"{BATCHES}{batch.pk}/"
