"""The steps of a new model: what was filled in stays, what is wrong leads to its step."""

import html
import re
import shlex
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from frontend.presenters.create_model import parent_choices
from frontend.presenters.formatting import time_range
from tenants.accounts.services.api_keys import api_key_create
from tenants.datasets.models import Corpus
from tests.e2e.world import World
from tests.integration.frontend.reading import Page
from versiontree.jobs.models import Job
from versiontree.tree.models import Coverage, Hplm, Root, Version
from versiontree.tree.selectors.past_jobs import EstimateRange
from versiontree.tree.services.roots import root_register

NEW = "/t/acme/models/new/"


def filled(world: World, **more: Any) -> dict[str, Any]:
    return {"dataset": world.dataset.pk, "parent": world.domain.pk, "name": "complaints", **more}


def at(step: str, **more: Any) -> dict[str, Any]:
    return {"step": step, **more}


def estimate_at(owner: Client, address: str, **filled_in: Any) -> str:
    page: str = owner.get(address, filled_in).content.decode()
    return page.partition('id="estimate"')[2].partition("</section>")[0]


def test_a_new_domain_is_estimated_as_far_as_the_form_is_filled_in(owner: Client, world: World) -> None:
    estimate = partial(estimate_at, owner, "/t/acme/domains/new/")
    chosen = {"parent": world.domain.pk, "corpus": world.corpus.pk}
    for lacking in ({}, {"parent": world.domain.pk}, {**chosen, "corpus": 999_999}):
        assert "Choose a base model and a corpus" in estimate(**lacking), lacking
    assert "Time until ready" in estimate(**chosen)
    assert estimate(**chosen, minutes="90") != estimate(**chosen), "folded-away settings count"
    counted = Version.unscoped.count(), Job.unscoped.count()
    refused = owner.post("/t/acme/domains/new/", {**chosen, "alpha": "20", "name": "Not a slug"})
    assert "Time until ready" in refused.content.decode()
    assert (Version.unscoped.count(), Job.unscoped.count()) == counted


def step_of(answer: Any) -> str:
    """The title of the step that is shown."""
    page: str = answer.content.decode()
    return page.split('aria-current="step"')[-1].split("<span>")[-1].split("</span>")[0]


def measured(world: World) -> None:
    for version, levels in ((world.root, (50, 30, 20)), (world.domain, (70, 20, 10))):
        Coverage.unscoped.create(
            tenant=world.tenant,
            dataset=world.dataset,
            version=version,
            **dict(zip(("trigrams", "bigrams", "unigrams"), levels, strict=True)),
        )


def kept_in(answer: Any) -> dict[str, str | None]:
    """The hidden fields that carry what was filled in."""
    inputs = Page(answer.content.decode()).tags["input"]
    return {str(one["name"]): one.get("value") for one in inputs if one.get("type") == "hidden"}


def test_each_step_carries_what_the_others_have(owner: Client, world: World) -> None:
    data = owner.get(NEW)
    assert (step_of(data), "Tickets" in data.content.decode()) == ("Data", True)
    assert "The test split has only" in data.content.decode()
    parent = owner.get(NEW, at("parent", dataset=world.dataset.pk))
    assert step_of(parent) == "Base model"
    settings = owner.get(NEW, at("settings", dataset=world.dataset.pk, parent=world.domain.pk))
    assert step_of(settings) == "Settings"
    assert 'name="name" value="tickets"' in settings.content.decode()
    review = owner.get(NEW, filled(world, step="review", epochs="3", biases="false"))
    assert step_of(review) == "Review"
    kept = kept_in(review)
    assert {name: kept[name] for name in ("dataset", "parent", "name", "epochs", "biases")} == {
        "dataset": str(world.dataset.pk),
        "parent": str(world.domain.pk),
        "name": "complaints",
        "epochs": "3",
        "biases": "false",
    }
    back = next(link["href"] for link in Page(review.content.decode()).tags["a"] if "step=data" in str(link))
    assert parse_qs(urlsplit(str(back)).query)["epochs"] == ["3"]
    assert not Hplm.unscoped.filter(name="complaints").exists()


def test_a_quick_version_comes_first_unless_its_box_was_unticked(owner: Client, world: World) -> None:
    def box(**sent: str | list[str]) -> bool:
        shown = owner.get(NEW, filled(world, step="settings", **sent)).content.decode()
        return any(one.get("name") == "quick" and "checked" in one for one in Page(shown).tags["input"])

    assert box()
    assert box(quick=["false", "true"])
    assert not box(quick="false")
    unticked = owner.get(NEW, filled(world, step="review", quick="false"))
    assert (kept_in(unticked)["quick"], Page(unticked.content.decode()).all_of("Quick version")) == (
        "false",
        ["none"],
    )
    skipped = owner.get(NEW, filled(world, step="review")).content.decode()
    assert Page(skipped).all_of("Quick version") == ["first, within seconds"]


def test_settings_can_be_skipped_and_the_model_is_called_as_its_dataset(owner: Client, world: World) -> None:
    chosen = {"dataset": world.dataset.pk, "parent": world.domain.pk}
    parent = owner.get(NEW, at("parent", dataset=world.dataset.pk)).content.decode()
    assert re.search(r'<button name="step" value="review">Skip to review', parent)
    steps = [("step", "settings"), ("step", "review")]
    review = owner.get(f"{NEW}?{urlencode([*steps, *chosen.items()])}")
    assert step_of(review) == "Review"
    assert kept_in(review)["name"] == "tickets"
    assert step_of(owner.get(NEW, at("review", name="", **chosen))) == "Settings", "which was not skipped"
    assert step_of(owner.post(NEW, chosen)) == "Settings"


CHOSEN = {"license": "apache-2.0", "epochs": "3", "learning_rate": "0.0005", "biases": "false", "seed": "7"}
WITHOUT_QUICK = {"quick": "false"}


@pytest.mark.parametrize("more", [{}, CHOSEN, WITHOUT_QUICK])
def test_the_call_that_the_review_shows_begins_what_start_begins(
    owner: Client, world: World, more: dict[str, str]
) -> None:
    review = owner.get(NEW, filled(world, **more))
    _, key = api_key_create(tenant=world.tenant, name="build", scopes=["manage"], created_by=world.owner)
    curl = shlex.split(code_of(review, "curl").replace(" \\\n", " ").replace("$HMI_API_KEY", key))
    _, url, _, header, flag, body = curl
    assert (urlsplit(url).path, flag) == ("/api/v1/models", "--json")
    with transaction.atomic():
        headers = dict([header.split(": ")])
        called = Client().post(urlsplit(url).path, body, content_type="application/json", headers=headers)
        assert called.status_code == 201, called.content
        by_call = begun("complaints")
        transaction.set_rollback(True)
    assert not Hplm.unscoped.filter(name="complaints").exists()
    started = owner.post(NEW, {name: value or "" for name, value in kept_in(review).items()})
    job = Job.unscoped.get(version__hplm__name="complaints", kind="fine_tune")
    watched = f"/t/acme/jobs/{job.pk}/" if "quick" in more else "/t/acme/models/complaints/"
    assert started["Location"] == watched
    assert begun("complaints") == by_call
    assert [version["config"].get("quick") for version in by_call] == (
        [None] if "quick" in more else [True, None]
    )
    assert {version["parent"] for version in by_call} == {world.domain.pk}
    assert {version["license"] for version in by_call} == {more.get("license", "")}
    assert job.params["settings"].keys() == more.keys() - {"license", "quick"}
    assert "Time until ready" in review.content.decode()
    assert "httpx.post" in code_of(review, "python")


def code_of(answer: Any, name: str) -> str:
    """The lines that the page offers to copy."""
    [shown] = re.findall(rf'<code[^>]* id="{name}"[^>]*>(.*?)</code>', answer.content.decode(), re.DOTALL)
    return html.unescape(shown)


def begun(name: str) -> list[dict[str, Any]]:
    """All that was asked for with the versions of a model."""
    versions = Version.unscoped.filter(hplm__name=name).select_related("hplm").order_by("number")
    return [
        {
            "license": version.hplm.license if version.hplm else "",
            "config": version.config,
            "parent": version.parent_id,
            "jobs": sorted((job.kind, str(job.params)) for job in version.jobs.all()),
        }
        for version in versions
    ]


@pytest.mark.parametrize(
    ("wrong", "step", "said"),
    [
        ({"dataset": ""}, "Data", "Choose a dataset."),
        ({"dataset": "999999"}, "Data", "There is no such dataset."),
        ({"parent": "none"}, "Base model", "Choose a base model."),
        ({"name": "Complaints"}, "Settings", "lower-case"),
        ({"name": "triage"}, "Settings", "A model named"),
        ({"epochs": "0"}, "Settings", "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_leads_to_its_step_and_loses_nothing(
    owner: Client, world: World, wrong: dict[str, str], step: str, said: str
) -> None:
    for ask in (owner.get, owner.post):
        answer = ask(NEW, {**filled(world, step="review", batch_size="8"), **wrong})
        assert (answer.status_code, step_of(answer)) == (200, step)
        assert said in answer.content.decode()
        assert 'value="8"' in answer.content.decode()
    assert not Hplm.unscoped.filter(name="complaints").exists()


def test_a_foreign_dataset_or_parent_is_not_there(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    answer = client.get(NEW.replace("acme", "umbra"), {**filled(world), "step": "review"})
    assert step_of(answer) == "Data"
    assert "There is no such dataset." in answer.content.decode()


def test_the_parent_that_holds_most_of_the_dataset_is_recommended_and_chosen(
    owner: Client, world: World
) -> None:
    waiting = owner.get(NEW, at("parent", dataset=world.dataset.pk)).content.decode()
    assert "checked" not in waiting.split("<main")[1]
    assert "Finding the best match for your texts." in waiting
    measured(world)
    shown = owner.get(NEW, at("parent", dataset=world.dataset.pk))
    radios = [one for one in Page(shown.content.decode()).tags["input"] if one.get("name") == "parent"]
    assert [(one["value"], "checked" in one) for one in radios] == [
        (str(world.domain.pk), True),
        (str(world.root.pk), False),
    ]
    assert "It knows most of the phrases in your texts" in shown.content.decode()
    chosen = owner.get(NEW, at("parent", dataset=world.dataset.pk, parent=world.root.pk))
    radios = [one for one in Page(chosen.content.decode()).tags["input"] if one.get("name") == "parent"]
    assert [one["value"] for one in radios if "checked" in one] == [str(world.root.pk)]


def test_where_nothing_can_be_measured_the_root_is_chosen(world: World) -> None:
    faults = [Coverage(version=version, error_message="gone") for version in (world.domain, world.root)]
    versions: list[Version] = [world.domain, world.root]
    choices = parent_choices(versions, faults, None, measuring=False)
    assert [choice.name for choice in choices if choice.chosen] == ["minilm v1"]


def test_datasets_are_found_by_task_and_name(owner: Client, world: World) -> None:
    assert "No matching datasets" in owner.get(NEW, {"task": "tagging"}).content.decode()
    assert "No matching datasets" in owner.get(NEW, {"q": "absent"}).content.decode()
    kept = owner.get(NEW, at("data", q="absent", dataset=world.dataset.pk)).content.decode()
    assert "checked" in kept


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (EstimateRange(3, 4, 5), "about 3 to 5 seconds"),
        (EstimateRange(50, 200, 400), "about 50 seconds to 7 minutes"),
        (EstimateRange(4000, 4100, 4200), "about 65 to 70 minutes"),
        (EstimateRange(7500, 7600, 7700), "about 2 hours"),
    ],
)
def test_a_span_of_time_is_said_as_people_say_it(span: EstimateRange, words: str) -> None:
    assert time_range(span) == words


def test_while_the_first_base_model_is_built_the_page_says_so_and_waits_for_it(
    owner: Client, world: World
) -> None:
    Root.objects.update(retired_at=timezone.now())
    chosen = f"{NEW}?dataset={world.dataset.pk}&step=parent"
    told = owner.get(chosen).content.decode()
    assert "Ask your administrator to register one." in told
    text = Corpus.unscoped.get(name="Plain English")
    root_register(name="fresh", source="tiny/checkpoint", corpus=text, actor=world.admin)
    told = owner.get(chosen).content.decode()
    assert "The base model fresh is still being built." in told
    assert 'hx-trigger="load delay:5s"' in told
    assert "administrator" not in told.partition('id="parents"')[2].partition("</fieldset>")[0]
