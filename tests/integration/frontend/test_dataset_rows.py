"""The page of a dataset's rows: filters, changes that are saved as a new dataset, downloads."""

import csv
import io
import json
import re

from django.test import Client

from tenants.datasets.models import Dataset
from tests.e2e.world import World
from tests.integration.versiontree.answered import answers_keep, label_judge
from versiontree.jobs.models import Job


def rows_page(client: Client, dataset: Dataset, query: str = "") -> str:
    response = client.get(f"/t/acme/data/datasets/{dataset.pk}/rows/{query}")
    assert response.status_code == 200
    return response.content.decode()


def numbers(page: str) -> list[int]:
    return [int(found) for found in re.findall(r'name="row" value="(\d+)"', page)]


def stored(dataset: Dataset, split: str, client: Client) -> list[dict[str, str]]:
    answer = client.get(f"/t/acme/data/datasets/{dataset.pk}/download/?split={split}")
    return [json.loads(line) for line in b"".join(answer).splitlines()]


def test_rows_are_filtered_by_label_by_words_and_by_what_the_model_answers(
    owner: Client, world: World
) -> None:
    train = stored(world.dataset, "train", owner)
    wanted = [number for number, row in enumerate(train, start=1) if row["label"] == "refund"]
    page = rows_page(owner, world.dataset, "?label=refund")
    assert numbers(page) == wanted[:25]
    assert "The model disagrees" not in page, "none has answered"
    answers_keep(world.hplm, label_judge(lambda n: "refund" if n in (3, 4) else ""))
    page = rows_page(owner, world.dataset, "?wrong=1")
    assert 0 < len(numbers(page)) <= 2
    first = numbers(page)[0]
    assert numbers(rows_page(owner, world.dataset, f"?split=test&row={first}")) == [first]


def test_later_pages_keep_the_numbers_of_their_rows(owner: Client, world: World) -> None:
    page, seen = rows_page(owner, world.dataset), list[int]()
    while True:
        seen += numbers(page)
        following = re.search(r'href="([^"]+)" *rel="next"|rel="next" href="([^"]+)"', page)
        if following is None:
            break
        page = rows_page(owner, world.dataset, (following[1] or following[2]).replace("&amp;", "&"))
    assert seen == list(range(1, len(stored(world.dataset, "train", owner)) + 1))


def test_changes_of_a_page_are_saved_as_a_new_dataset_and_the_model_is_trained_again(
    owner: Client, world: World
) -> None:
    before = stored(world.dataset, "train", owner)
    sent = {
        "split": "train",
        "row": ["1", "2", "3"],
        "1-text": "what was meant",
        "1-label": before[0]["label"],
        "2-text": before[1]["text"],
        "2-label": before[1]["label"],
        "3-remove": "on",
        "new-text": "a new row",
        "new-label": "praise",
        "name": "Tickets, corrected",
        "then": "triage",
    }
    response = owner.post(f"/t/acme/data/datasets/{world.dataset.pk}/rows/edit/", sent, follow=True)
    made = Dataset.unscoped.get(name="Tickets, corrected")
    expected = [before[0] | {"text": "what was meant"}, before[1], *before[3:]]
    assert stored(made, "train", owner) == [*expected, {"text": "a new row", "label": "praise"}]
    assert stored(world.dataset, "train", owner) == before
    assert Job.unscoped.filter(version__hplm__name="triage", version__dataset=made).exists()
    assert "Fine-tune" in response.content.decode()
    shown = owner.get(f"/t/acme/data/datasets/{made.pk}/").content.decode()
    assert "1 changed row, 1 removed and 1 added" in shown
    assert "<del" in shown
    assert "what was meant" in shown


def test_a_page_without_changes_and_one_with_a_bad_row_say_so_and_keep_what_was_typed(
    owner: Client, world: World
) -> None:
    address = f"/t/acme/data/datasets/{world.dataset.pk}/rows/edit/"
    nothing = owner.post(address, {"split": "train", "row": ["1"], "name": "Other"})
    assert "Other" in nothing.content.decode()
    sent = {"split": "train", "row": ["1"], "1-text": "", "1-label": "refund", "name": "Other"}
    page = owner.post(address, sent).content.decode()
    assert 'role="alert"' in page
    assert not Dataset.unscoped.filter(name="Other").exists()


def test_a_split_is_downloaded_as_csv(owner: Client, world: World) -> None:
    answer = owner.get(f"/t/acme/data/datasets/{world.dataset.pk}/download/?split=test&csv")
    text = b"".join(answer).decode("utf-8-sig")
    assert list(csv.DictReader(io.StringIO(text))) == stored(world.dataset, "test", owner)
    assert owner.get(f"/t/acme/data/datasets/{world.dataset.pk}/download/?split=x").status_code == 404
