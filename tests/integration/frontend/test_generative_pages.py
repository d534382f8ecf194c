"""The pages of decoder roots, generative models and their data."""

import csv
import io
import re
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from frontend.presenters.served_answers import generated_answers
from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tenants.usage.models import LoggedRequest
from tests.e2e.world import World, nothing_of_use, versions_finish
from tests.integration.frontend.reading import Page
from tests.integration.tenants.content import stream
from tests.integration.versiontree.answered import answers_keep
from tests.unit.tenants.files import jsonl
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind, Version
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.services.roots import root_register
from versiontree.tree.training_settings import setting_specs
from workers.training.tasks.base import EvaluatedRow

NEW = "/t/acme/models/new/"
VERSION = "/t/acme/models/writer/versions/1/"
API = "/api/v1/tenants/acme/models/writer/versions/"
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


def writer(world: World, decoder: Version, data: Dataset, metrics: dict[str, Any] | None = None) -> Version:
    """The first version of a generative model, which is ready."""
    version = hplm_create(tenant=world.tenant, name="writer", parent=decoder, dataset=data, actor=world.owner)
    versions_finish(version, metrics or {"evaluate": MEASURED}, files=nothing_of_use)
    return version


def text_of(browser: Client, address: str, **query: Any) -> str:
    answer = browser.get(address, query)
    assert answer.status_code == 200, address
    page: str = answer.content.decode()
    return page


def asked(world: World, tests: int = 60) -> Dataset:
    """Prompts with completions, and so many of them to test with."""
    files = {
        split: (
            f"{split}.jsonl",
            stream(
                jsonl(
                    {"prompt": f"<b>{split} {number}</b>", "completion": f"It is <i>{number}</i>."}
                    for number in range(count)
                )
            ),
        )
        for split, count in (("train", 40), ("dev", 20), ("test", tests))
    }
    return dataset_upload(
        tenant=world.tenant, name="asked", task="generation", files=files, actor=world.owner
    )


def worse(row: dict[str, Any], number: int) -> EvaluatedRow | None:
    """The later a row, the less of it is right; each third is not answered."""
    if number % 3 == 2:
        return None
    return EvaluatedRow(row["completion"], f"<script>{number}</script>", None, 1 - number / 100)


def test_the_answers_of_a_generative_model_are_shown_lowest_rouge_l_first(
    owner: Client, world: World, decoder: Version
) -> None:
    version = writer(world, decoder, asked(world, 90))
    answers_keep(version, worse)
    page = text_of(owner, VERSION)
    assert "Lowest ROUGE-L" in page
    assert "All 60" in page
    shown = owner.get(f"{VERSION}answers/")
    scores = [row.answer.score for row in shown.context["rows"]]
    assert scores == sorted(scores)
    assert shown.context["page"].paginator.num_pages == 3
    first = shown.context["rows"][0]
    assert (first.row, first.answer.score) == (89, 0.12)
    text = shown.content.decode()
    assert "12.0%" in text
    assert "60 of 90 test rows were answered" in text
    for written in ("<b>test 88</b>", "It is <i>88</i>.", "<script>88</script>"):
        assert escape(written) in text
        assert written not in text
        assert escape(written) in page
        assert written not in page
    last = owner.get(f"{VERSION}answers/", {"page": 3}).context["rows"][-1]
    assert (last.row, last.answer.score) == (1, 1.0)
    in_order = owner.get(f"{VERSION}answers/", {"wrong": 0}).context["rows"]
    assert [row.row for row in in_order[:3]] == [1, 2, 4]


def test_answers_of_generative_models_are_downloaded_and_in_the_api(
    owner: Client, world: World, decoder: Version
) -> None:
    answers_keep(writer(world, decoder, asked(world)), worse)
    sent = owner.get(f"{VERSION}answers/", {"csv": 1})
    lines = b"".join(sent.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    first = next(csv.DictReader(io.StringIO(lines)))
    assert first | {"row": "59", "prompt": "<b>test 58</b>", "ROUGE-L": "0.42"} == first
    assert (first["expected"], first["answered"]) == ("It is <i>58</i>.", "<script>58</script>")
    (found,) = owner.get(f"{API}1/predictions", {"wrong": 1, "limit": 1}).json()["results"]
    assert found == {
        "row": 59,
        "input": {"prompt": "<b>test 58</b>", "completion": "It is <i>58</i>."},
        "gold": "It is <i>58</i>.",
        "predicted": "<script>58</script>",
        "right": None,
        "score": 0.42,
    }


def test_two_versions_of_a_generative_model_are_compared_by_rouge_l(
    owner: Client, world: World, decoder: Version
) -> None:
    data = asked(world)
    first = writer(world, decoder, data)
    assert first.hplm is not None
    second = hplm_update(hplm=first.hplm, dataset=data, actor=world.owner)
    versions_finish(second, {"evaluate": MEASURED}, files=nothing_of_use)
    answers_keep(first, worse)
    answers_keep(second, lambda row, number: EvaluatedRow(row["completion"], "new", None, 0.9))
    page = owner.get("/t/acme/models/writer/versions/2/compare/1/")
    assert {one.name: one.count for one in page.context["tallies"]} == {
        "Higher ROUGE-L": 32,
        "Lower ROUGE-L": 7,
        "Same ROUGE-L": 1,
    }
    text = page.content.decode()
    assert escape("<script>3</script>") in text
    assert "<script>3</script>" not in text


def test_the_samples_of_a_fine_tuning_are_on_the_page_and_in_the_api(
    owner: Client, world: World, decoder: Version
) -> None:
    sample = {"prompt": "<u>Say</u>", "answer": "<s>five</s>", "reference": "<q>It is five.</q>"}
    epochs = [{"epoch": 0, "dev_loss": 4.125}, {"epoch": 1, "loss": 2.0, "dev_loss": 1.5}]
    tuned = {"samples": [sample], "epochs": epochs, "best_epoch": 1}
    writer(world, decoder, prompts(world), {"fine_tune": tuned, "evaluate": MEASURED})
    page = text_of(owner, VERSION)
    assert "Samples" in page
    for text in sample.values():
        assert escape(text) in page
        assert text not in page
    assert "from 4.125" in page
    assert owner.get(f"{API}1").json()["metrics"]["fine_tune"] == tuned


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
    assert shown >= set(setting_specs(JobKind.FINE_TUNE, RootKind.DECODER))
    assert "full_context_share" not in shown
    filled = {"dataset": data.pk, "parent": decoder.pk, "name": "writer", "lora": "8", "projections": "all"}
    assert owner.post(NEW, filled).status_code == 302
    made = Version.unscoped.get(hplm__name="writer")
    assert made.config["settings"] == {"lora": 8, "projections": "all"}


def test_a_dataset_of_chats_is_measured_by_the_tokenizers_of_decoders(
    owner: Client, world: World, decoder: Version
) -> None:
    page = owner.get(f"/t/acme/data/datasets/{chats(world).pk}/").content.decode()
    offer = page.partition('aria-label="Root"')[2].partition("</select>")[0]
    assert re.findall(r'<option value="(\d+)"', offer) == [str(decoder.pk)]


def test_a_version_that_writes_shows_its_tokens_and_times_and_no_share_of_a_cascade() -> None:
    logged = [LoggedRequest(generated_tokens=20, latency_ms=500.0), LoggedRequest(generated_tokens=40)]
    shown = generated_answers(logged)
    assert shown is not None
    assert [(tile.name, tile.figure) for tile in shown.tiles] == [
        ("Requests", "2"),
        ("Tokens", "30"),
        ("Time", "0.5 s"),
        ("Speed", "40"),
    ]
    assert generated_answers([]) is None
