"""The playground of generative models: what it offers, and what its form is filled with."""

import re

import pytest
from django.test import Client

from frontend.presenters.decoder import decoder_facts
from tests.e2e.generative import furnish_generative
from tests.e2e.world import World, nothing_of_use
from tests.integration.frontend.reading import Page
from tests.integration.frontend.test_generative_pages import text_of
from tests.integration.frontend.test_playground import fields
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import lineage_of

PLAYGROUND, UPDATE = "/t/acme/playground/", "/t/acme/playground/update/"
CHAT, GENERATION = "writer@default", "continuer@default"


@pytest.fixture(autouse=True)
def generative(world: World) -> None:
    """Two models for chat, and one for generation."""
    furnish_generative(world, nothing_of_use)


def attributes(html: str, tag: str, name: str) -> list[str | None]:
    """The attribute of all elements of this tag that have it."""
    return [one[name] for one in Page(html).tags[tag] if name in one]


@pytest.mark.parametrize(
    ("model", "address", "has_system"),
    [(CHAT, "/v1/chat/completions", True), (GENERATION, "/v1/completions", False)],
)
def test_the_page_of_a_generative_model_names_the_address_that_answers_it(
    owner: Client, model: str, address: str, has_system: bool
) -> None:
    page = text_of(owner, PLAYGROUND, model=model)
    assert attributes(page, "form", "data-completions") == [f"{address}?tenant=acme"]
    assert attributes(page, "article", "data-model") == [model]
    names = attributes(page, "input", "name")
    assert {"temperature", "top_p", "max_tokens", "seed"} <= set(names)
    assert ("system" in attributes(page, "textarea", "name")) == has_system
    assert "quality" not in names


def test_two_models_for_chat_stand_side_by_side(owner: Client) -> None:
    page = text_of(owner, PLAYGROUND, model=[CHAT, "poet@default", GENERATION, "triage"])
    assert attributes(page, "article", "data-model") == [CHAT, "poet@default"]
    assert f"{GENERATION} reads a prompt, {CHAT} reads a chat" in page
    assert "triage reads one text" in page


def test_what_is_filled_in_stays_when_a_model_is_added(owner: Client) -> None:
    asked = {"model": CHAT, "add": "poet@default", "generative": "1"}
    filled = {"text": "Hello", "system": "Be short.", "temperature": "0.3", "seed": "7", "max_tokens": ""}
    page = owner.post(UPDATE, {**asked, **filled}).content.decode()
    values = {one["name"]: one.get("value") for one in Page(page).tags["input"] if "name" in one}
    assert fields(page) == ["Be short.", "Hello"]
    assert (values["temperature"], values["seed"], values["max_tokens"]) == ("0.3", "7", None)


def test_a_model_of_the_other_kind_leads_to_its_page(owner: Client) -> None:
    for asked, leads in (
        ({"model": "", "add": CHAT}, f"?model={CHAT}"),
        ({"model": CHAT, "drop": CHAT, "generative": "1"}, "?model="),
    ):
        answer = owner.post(UPDATE, asked, headers={"HX-Request": "true"})
        assert answer["HX-Redirect"] == f"{PLAYGROUND}{leads}"


def test_a_row_of_the_dataset_becomes_the_message_or_the_prompt(owner: Client) -> None:
    for model in (CHAT, GENERATION):
        page = text_of(owner, PLAYGROUND, model=model)
        assert re.search(r"<small dir=\"auto\">A number, \d+\.</small>", page)
        asked = {"model": model, "example": "0", "generative": "1"}
        assert re.fullmatch(r"What is \d+\?", fields(owner.post(UPDATE, asked).content.decode())[-1])


def test_the_layers_of_an_imported_lora_are_not_guessed() -> None:
    steps = lineage_of(Version.unscoped.get(hplm__name="writer"))
    assert "Trained layers" in dict(decoder_facts(steps))
    steps[0].version.config["imported"] = {"from": "peft"}
    assert "Trained layers" not in dict(decoder_facts(steps))
