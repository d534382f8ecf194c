"""The pages of what versions answered, and the same by the API."""

import csv
import io

import pytest
from django.test import Client

from tests.e2e.measures import evaluation
from tests.e2e.world import World, nothing_of_use, versions_finish
from tests.integration.versiontree.answered import answers_keep, label_judge
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.models import Job
from versiontree.tree.models import Evaluation, Version
from versiontree.tree.services.hplms import hplm_update

V1, V2 = "/t/acme/models/triage/versions/1/", "/t/acme/models/triage/versions/2/"
API = "/api/v1/tenants/acme/models/triage/versions/2/predictions"


@pytest.fixture
def second(world: World) -> Version:
    """A second version of triage; of each the answers to the same 24 test rows or so are kept."""
    assert world.hplm.hplm is not None
    made = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(made, {"evaluate": evaluation(right=45)}, files=nothing_of_use)
    answers_keep(world.hplm, label_judge(lambda n: "refund" if n % 2 else ""))
    answers_keep(made, label_judge(lambda n: "=delivery" if n % 3 == 0 else ""))
    return made


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def test_a_version_shows_its_surest_mistakes_and_the_way_to_all(owner: Client, second: Version) -> None:
    page = shown(owner, V2)
    assert "Mistakes" in page
    assert "predicted=" in page
    answers = owner.get(f"{V2}answers/")
    rows = answers.context["rows"]
    assert rows
    assert all(row.answer.words == ["=delivery"] for row in rows)
    scores = [row.answer.score for row in rows]
    assert scores == sorted(scores, reverse=True)
    gold = rows[0].gold.words[0]
    cell = owner.get(f"{V2}answers/", {"wrong": 0, "gold": gold, "predicted": "=delivery"}).context["rows"]
    assert {row.gold.words[0] for row in cell} == {gold}
    assert {row.row for row in cell} == {row.row for row in rows if row.gold.words == [gold]}
    assert "ticket" in cell[0].texts[0].text


def test_two_versions_are_held_against_each_other_row_by_row(owner: Client, second: Version) -> None:
    answer = owner.get(f"{V2}compare/1/")
    counts = {tally.kind: tally.count for tally in answer.context["tallies"]}
    stored = len(answer.context["answers"].answered)
    assert sum(counts.values()) + answer.context["same"] == stored
    broken = owner.get(f"{V2}compare/1/?change=broken").context["rows"]
    assert len(broken) == counts["broken"] > 0
    assert all(row.before.right and not row.answer.right for row in broken)
    assert "McNemar" in answer.content.decode()


def test_the_rows_are_downloaded_for_a_spreadsheet_that_computes_nothing(
    owner: Client, second: Version
) -> None:
    for address, column in ((f"{V2}answers/?csv=1", "answered"), (f"{V2}compare/1/?csv=1", "after")):
        answer = owner.get(address)
        assert "attachment" in answer["Content-Disposition"]
        text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
        rows = list(csv.DictReader(io.StringIO(text)))
        assert any(row[column] == "'=delivery" for row in rows)
        assert all(row["text"] for row in rows)


def test_a_version_whose_answers_were_not_kept_is_evaluated_again(
    owner: Client, client: Client, second: Version, world: World
) -> None:
    Evaluation.unscoped.filter(version=world.hplm).delete()
    assert "Evaluate again" in shown(owner, V1)
    assert "Answers not stored" in shown(owner, f"{V1}answers/")
    assert "No common test rows" in shown(owner, f"{V2}compare/1/")
    sent = owner.post(f"{V1}evaluate/", {"dataset": world.dataset.pk})
    job = Job.unscoped.get(version=world.hplm, state="queued")
    assert sent["Location"].endswith(f"/jobs/{job.pk}/")
    assert "has an active job" in shown(owner, f"{V1}answers/")
    assert owner.get("/t/acme/models/triage/").context["versions"][1].job == jobs_in_order(world.hplm)[0].pk
    client.force_login(world.viewer)
    assert client.post(f"{V2}evaluate/", {"dataset": world.dataset.pk}).status_code == 403


def test_when_the_dataset_is_gone_the_answers_are_still_there(owner: Client, second: Version) -> None:
    Evaluation.unscoped.update(test_sha256="0" * 64)
    page = shown(owner, f"{V2}answers/")
    assert "Texts deleted" in page
    assert "=delivery" in page
    assert "Texts deleted" in shown(owner, f"{V2}compare/1/")


def test_right_to_left_texts_are_escaped_and_turned(owner: Client, world: World) -> None:
    answers_keep(world.hplm, label_judge(lambda n: '<b dir="rtl">' if n < 2 else ""))
    page = shown(owner, f"{V1}answers/")
    assert "&lt;b dir=&quot;rtl&quot;&gt;" in page
    assert '<p dir="auto">' in page


def test_the_api_gives_the_same_rows_in_pages(owner: Client, second: Version, world: World) -> None:
    first = owner.get(API, {"wrong": 1, "limit": 3}).json()
    assert len(first["results"]) == 3 < first["count"]
    found, following = list(first["results"]), first["next"]
    while following:
        page = owner.get(following).json()
        found, following = [*found, *page["results"]], page["next"]
    on_the_page = owner.get(f"{V2}answers/").context["page"].paginator.object_list
    assert [one["row"] for one in found] == [one.row for one in on_the_page]
    assert all(one["input"]["label"] == one["gold"] for one in found)
    changed = owner.get(API, {"against": 1}).json()
    assert sum(changed["changes"].values()) == changed["count"]
    assert 0 <= changed["p_value"] <= 1
    answers_keep(second, label_judge(lambda n: "refund"))
    stale = owner.get(first["next"])
    assert (stale.status_code, stale.json()["error"]["code"]) == (422, "invalid_field")
    queued = owner.post(API.replace("predictions", "evaluate"), {}, content_type="application/json")
    assert (queued.status_code, queued.json()["kind"]) == (201, "evaluate")
