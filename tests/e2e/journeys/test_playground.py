"""The playground: an own generative model is asked beside the base model that it was made of."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import sign_in
from tests.e2e.generative import DecoderFiles, furnish_generative
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.world import World
from tests.processes import InferenceWorker, wait_until


@pytest.fixture(autouse=True)
def generative(world: World, inference_worker: InferenceWorker, tmp_path: Path) -> None:
    """Generative models that are served."""
    furnish_generative(world, DecoderFiles(tmp_path))
    wait_until(lambda: "smol" in inference_worker.told().roots, inference_worker)


def test_an_own_generative_model_is_asked_beside_its_base_model(page: Page, world: World) -> None:
    person = Traveller(sign_in(page, "olga"), "own generative model beside its base model")
    person.click(page.get_by_role("link", name="Try writer"))
    person.click(page.get_by_role("button", name="Compare with the base model smol"))
    columns = page.locator("article[data-model]")
    expect(columns).to_have_count(2)
    expect(page.get_by_label("Temperature")).to_have_value("0")
    send = page.get_by_role("button", name="Send", exact=True)
    person.fill(page.get_by_label("Message"), "What is 7?")
    person.click(send)
    for model in ("writer@default", "smol"):
        answer = page.get_by_role("log", name=model, exact=True).get_by_role("listitem")
        expect(answer).to_contain_text("first after")
    assert took(person.arrived()) == (3, 1)

    page.set_viewport_size({"width": 390, "height": 844})
    for place in ("0", "document.body.scrollHeight"):
        page.evaluate(f"scrollTo(0, {place})")
        expect(send).to_be_in_viewport(ratio=1)
