"""Rows from elsewhere that become training rows of a new dataset."""

import re

from django.test import Client

from tenants.datasets.models import Dataset
from tests.e2e.world import World
from tests.integration.frontend.test_dataset_rows import stored
from tests.integration.frontend.test_request_log import address, log
from tests.integration.versiontree.answered import answers_keep, label_judge
from versiontree.jobs.models import Job


def test_an_input_of_the_log_is_labeled_and_added_and_the_model_trained_again(
    owner: Client, world: World
) -> None:
    log(world, "kept", texts=["where is it", "I want my money back"])
    page = owner.get(address(world)).content.decode()
    links = re.findall(r'href="([^"]+/add/)"', page)
    assert len(links) == 2
    form = owner.get(links[1]).content.decode()
    assert "I want my money back" in form
    assert f'<option value="{world.dataset.pk}" selected>' in form
    sent = {"dataset": world.dataset.pk, "new-text": "I want my money back", "new-label": "refund"}
    empty = owner.post(links[1], {**sent, "new-label": ""}).content.decode()
    assert 'role="alert"' in empty
    assert "I want my money back" in empty
    owner.post(links[1], {**sent, "then": "triage"})
    made = Dataset.unscoped.get(name="Tickets-2")
    before = stored(world.dataset, "train", owner)
    assert stored(made, "train", owner) == [*before, {"text": "I want my money back", "label": "refund"}]
    assert Job.unscoped.filter(version__hplm__name="triage", version__dataset=made).exists()


def test_a_mistake_moves_from_the_test_rows_to_the_training_rows(owner: Client, world: World) -> None:
    answers_keep(world.hplm, label_judge(lambda n: "refund" if n in (3, 4) else ""))
    page = owner.get("/t/acme/models/triage/versions/1/answers/").content.decode()
    link = re.findall(r'href="([^"]+/test-rows/\d+/add/)"', page)[0]
    number = int(link.split("/")[-3])
    before = stored(world.dataset, "test", owner)
    row = before[number - 1]
    form = owner.get(link).content.decode()
    assert row["text"] in form
    assert f'value="{row["label"]}"' in form
    sent = {"dataset": world.dataset.pk, "new-text": row["text"], "new-label": row["label"]}
    owner.post(link, {**sent, "name": "Moved"})
    made = Dataset.unscoped.get(name="Moved")
    assert stored(made, "test", owner) == [one for one in before if one != row]
    assert stored(made, "train", owner) == [*stored(world.dataset, "train", owner), row]


def test_a_request_without_texts_and_one_of_no_model_have_no_row_to_add(owner: Client, world: World) -> None:
    log(world, "bare")
    assert "/add/" not in owner.get(address(world)).content.decode()
    assert owner.get(f"{address(world)}inputs/1/add/").status_code == 404
    log(world, "unknown", texts=["a text"], version=None, model_name="", status=404, error_code="not_found")
    assert "/add/" not in owner.get(address(world)).content.decode()
    log(world, "kept", texts=["a text"])
    owner.force_login(world.viewer)
    assert "/add/" not in owner.get(address(world)).content.decode()
