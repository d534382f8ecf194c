"""Which version answers by default: what each page offers, to whom, and what becomes of the reason."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record
from tests.e2e.world import World, nothing_of_use, versions_finish
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.promotion import AGAINST
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.hplms import hplm_update

TRIAGE = "/t/acme/models/triage/"
PLACES = ("", "versions/1/", "versions/2/", "versions/3/", "versions/2/compare/1/", "versions/1/compare/2/")


def updated(world: World, *, done: bool = True) -> Version:
    """A further version of triage, which is the default once its jobs are done."""
    assert world.hplm.hplm is not None
    made = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    if done:
        versions_finish(made, files=nothing_of_use)
    return made


def offered(client: Client, where: str = "") -> list[str]:
    """What the buttons of a page say that move the default, each with the version that it would be."""
    page = client.get(f"{TRIAGE}{where}").content.decode()
    return re.findall(r'aria-label="((?:Roll back|Promote)[^"]*)"', page)


def move(client: Client, where: str, button: str, reason: str) -> str:
    """Send what stands behind the first such button of a page; the page that follows."""
    page = client.get(f"{TRIAGE}{where}").content.decode()
    form = page[page.index(f'aria-label="{button}') :].partition("</form>")[0]
    fields = dict(re.findall(r'name="(name|version)" value="([^"]+)"', form))
    target = re.search(r'action="([^"]+)"', form)
    assert target is not None
    assert re.search(r'name="reason"[^>]*required', form), "no reason, no move"
    return client.post(target[1], fields | {"reason": reason}, follow=True).content.decode()


def answering() -> int:
    """The number of the version that is the default."""
    return Alias.unscoped.get(name="default").version.number


def test_each_page_of_versions_offers_what_can_be_done_there_to_who_may(client: Client, world: World) -> None:
    updated(world)
    updated(world, done=False)
    told = {}
    for person in (world.owner, world.developer, world.viewer):
        client.force_login(person)
        told[person.username] = {where: offered(client, where) for where in PLACES}
    assert told["olga"] == {
        "": ["Roll back: version 1", "Promote: version 1"],
        "versions/1/": ["Promote: version 1"],
        "versions/2/": ["Roll back: version 1"],
        "versions/3/": [],
        "versions/2/compare/1/": ["Promote v1: version 1"],
        "versions/1/compare/2/": ["Promote v1: version 1"],
    }
    assert told["dev"] == told["olga"]
    assert told["victor"] == {where: [] for where in PLACES}


@pytest.mark.parametrize(
    ("where", "button"),
    [("", "Promote"), ("versions/2/compare/1/", "Promote"), ("versions/2/", "Roll back")],
)
def test_a_version_is_promoted_or_rolled_back_to_with_a_reason_from_where_one_looks_at_it(
    owner: Client, world: World, where: str, button: str
) -> None:
    updated(world)
    assert answering() == 2
    assert "This field is required." in move(owner, where, button, " ")
    assert answering() == 2
    page = move(owner, where, button, "It mixes up refunds <again>")
    assert answering() == 1
    assert "@default now points to version 1." in page
    history = page.partition("Alias history")[2].partition("</ul>")[0]
    assert re.sub(r"<[^>]+>|\s+", " ", history).split()[:4] == ["@default", "v2", "→", "v1"]
    assert "It mixes up refunds &lt;again&gt;" in history
    assert "by olga" in history


def test_rolling_back_goes_further_back_each_time_and_never_to_what_was_rolled_back(
    owner: Client, world: World
) -> None:
    versions = [world.hplm, updated(world), updated(world)]
    assert offered(owner)[0] == offered(owner, "versions/3/")[0] == "Roll back: version 2"
    hplm = Hplm.unscoped.get(name="triage")
    for number in range(24):
        alias_move(hplm=hplm, name="canary", version=versions[number % 2], actor=world.owner)
    assert offered(owner)[0] == "Roll back: version 2", "whatever became of other aliases"
    move(owner, "", "Roll back", "v3 is worse")
    assert answering() == 2
    assert offered(owner)[0] == offered(owner, "versions/2/")[0] == "Roll back: version 1"
    move(owner, "", "Roll back", "v2 is worse, too")
    assert answering() == 1
    assert offered(owner) == ["Promote: version 3", "Promote: version 2"]
    assert offered(owner, "versions/1/") == []
    move(owner, "versions/3/", "Promote", "v3 after all")
    assert offered(owner)[0] == offered(owner, "versions/3/")[0] == "Roll back: version 1"
    Version.unscoped.filter(pk=world.hplm.pk).update(state="retired")
    assert offered(owner) == ["Promote: version 2"], "what cannot answer is nothing to go back to"


def test_a_default_that_is_worse_shows_both_figures_and_the_way_back_until_it_is_taken(
    owner: Client, client: Client, world: World
) -> None:
    second = updated(world)
    paired = {
        "rows": 15,
        "left_out": 0,
        "metric": "accuracy",
        "old": 14 / 15,
        "new": 12 / 15,
        "p_value": 0.25,
    }
    metrics = {"evaluate": {AGAINST: {"version": 1, "dev": paired}}}
    Version.unscoped.filter(pk=second.pk).update(metrics=metrics)
    job = second.jobs.earliest("created_at")
    for address in (TRIAGE, f"{TRIAGE}versions/2/", f"/t/acme/jobs/{job.pk}/"):
        page = owner.get(address).content.decode()
        warning = page.partition("v2 is the default now, but does worse than v1")[2].partition("</section>")[
            0
        ]
        assert "14 of 15<small>95% interval 70% to 99%</small>" in warning
        assert "12 of 15<small>95% interval 55% to 93%</small>" in warning
        assert page.count('aria-label="Roll back: version 1"') == 1
    client.force_login(world.viewer)
    viewed = client.get(TRIAGE).content.decode()
    assert ("does worse than v1" in viewed, "Roll back" in viewed) == (True, False)
    client.force_login(world.owner)
    move(client, "versions/2/", "Roll back", "It is worse")
    assert "does worse than v1" not in client.get(TRIAGE).content.decode()


def test_a_canary_is_tried_beside_the_default_and_promoted_or_rolled_back(
    owner: Client, client: Client, world: World
) -> None:
    second = updated(world)
    hplm = Hplm.unscoped.get(name="triage")
    alias_move(hplm=hplm, name="default", version=world.hplm, actor=world.owner)
    sent = {"alias": "default", "version": second.pk, "percent": "20"}
    for wrong in ({"percent": "100"}, {"alias": "absent"}, {"version": world.hplm.pk}):
        assert 'class="errorlist"' in owner.post(f"{TRIAGE}canary/", sent | wrong).content.decode()
    started = owner.post(f"{TRIAGE}canary/", sent, follow=True).content.decode()
    assert "The canary answers 20% of the requests to @default." in started
    today = datetime.now(UTC).date()
    for version, answered in (
        (1, AnswerCount(requests=8, failed=1, texts=9)),
        (2, AnswerCount(requests=2, texts=2)),
    ):
        answers_record(tenant=world.tenant, model_name="triage", version=version, count=answered, day=today)
    assert side_by_side(owner)["Share of the requests"] == ["80%", "20%"]
    assert side_by_side(owner)["Requests"] == ["8", "2"]
    assert side_by_side(owner)["Failed"] == ["1", "0"]
    assert side_by_side(owner)["Texts"] == ["9", "2"]
    ended = owner.post(f"{TRIAGE}canary/default/end/", follow=True).content.decode()
    assert "The canary of @default has ended." in ended
    assert side_by_side(owner) == {}
    assert "has no canary" in owner.post(f"{TRIAGE}canary/default/end/", follow=True).content.decode()
    owner.post(f"{TRIAGE}canary/", sent)
    client.force_login(world.viewer)
    assert side_by_side(client)["Share of the requests"] == ["80%", "20%"]
    assert "/canary/" not in client.get(TRIAGE).content.decode()
    client.force_login(world.owner)
    promoted = client.post(f"{TRIAGE}canary/default/promote/", follow=True).content.decode()
    assert "@default now points to the version that was its canary." in promoted
    assert (answering(), side_by_side(client)) == (2, {})


def side_by_side(client: Client) -> dict[str, list[str]]:
    """The figures of the default and of its canary, by name; none where no canary is shown."""
    page = client.get(TRIAGE).content.decode()
    table = page.partition('id="canary-default"')[2].partition("</table>")[0]
    lines = re.findall(
        r'<th scope="row">([^<]+)</th><td class="end">([^<]+)</td><td class="end">([^<]+)<', table
    )
    return {name: figures for name, *figures in lines}


def test_an_alias_is_removed_on_the_page_with_a_reason_but_never_the_default(
    owner: Client, client: Client, world: World
) -> None:
    hplm = Hplm.unscoped.get(name="triage")
    for name in ("canary", "shop"):
        alias_move(hplm=hplm, name=name, version=world.hplm, actor=world.owner)
    page = owner.get(TRIAGE).content.decode()
    assert re.findall(r'action="([^"]+/remove/)"', page) == [
        f"{TRIAGE}alias/{n}/remove/" for n in ("canary", "shop")
    ]
    for said in ({}, {"reason": " "}):
        told = owner.post(f"{TRIAGE}alias/canary/remove/", said, follow=True).content.decode()
        assert "@canary was not removed" in told
        assert hplm.aliases.filter(name="canary").exists()
    said = {"reason": "unused"}
    told = owner.post(f"{TRIAGE}alias/default/remove/", said, follow=True).content.decode()
    assert "Requests without an alias use @default" in told
    removed = owner.post(f"{TRIAGE}alias/canary/remove/", {"reason": "The trial is over"}, follow=True)
    told, _, history = removed.content.decode().partition("Alias history")
    assert "@canary removed." in told
    assert "v1 → removed" in history
    assert "The trial is over" in history
    client.force_login(world.viewer)
    assert "/remove/" not in client.get(TRIAGE).content.decode()
    assert set(hplm.aliases.values_list("name", flat=True)) == {"default", "shop"}


def test_usual_aliases_are_chosen_from_a_list_and_others_are_typed(owner: Client, world: World) -> None:
    def moved(**sent: str) -> str:
        fields = {"version": world.hplm.pk, "reason": "Checked by the team", **sent}
        return owner.post(f"{TRIAGE}alias/", fields, follow=True).content.decode()

    assert "@production (new)" in owner.get(TRIAGE).content.decode()
    assert "@production now points to version 1." in moved(name="production")
    assert "@production (new)" not in owner.get(TRIAGE).content.decode()
    assert "@shop now points to version 1." in moved(name="", new_name="shop")
    assert "Choose an alias, or enter another name." in moved(name="")
    assert set(Alias.unscoped.values_list("name", flat=True)) == {"default", "production", "shop"}
