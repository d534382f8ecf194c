"""Trying models: a real inference worker answers, or writes what the web server streams."""

from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.e2e.conftest import MEANT, Watch
from tests.e2e.generative import DecoderFiles, furnish_generative
from tests.e2e.world import World
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker, wait_until

CHAT = "/t/acme/playground/?model=writer@default"
COMPLETIONS = "**/v1/chat/completions*"
LONG = 30_000
TEXT = "a drug for the <b>heart</b> of the patient"
SHADES = """shaded => [...shaded.querySelectorAll(".shade")].map((shade) =>
  [shade.textContent, shade.className.replace("shade ", "")])"""


@pytest.fixture(autouse=True)
def generative(world: World, inference_worker: InferenceWorker, tmp_path: Path) -> None:
    """Generative models that are served."""
    furnish_generative(world, DecoderFiles(tmp_path))
    wait_until(lambda: "smol" in inference_worker.told().roots, inference_worker)


def settings(page: Page, **values: object) -> None:
    """Fill in the settings by their labels."""
    page.locator("#ask summary", has_text="Settings").click()
    for label, value in values.items():
        page.get_by_label(label.replace("_", " ")).fill(str(value))


def send(page: Page, text: str) -> None:
    """Write a message, and press the keys that send it."""
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Control+Enter")


def abort(route: Route) -> None:
    """Breaks the connection before an answer."""
    route.abort()


def streams(data: str) -> Callable[[Route], None]:
    """Answers a request with one event, and ends."""
    return lambda route: route.fulfill(content_type="text/event-stream", body=f"data: {data}\n\n")


def turns(page: Page, model: str) -> Locator:
    """The questions and answers of a model."""
    return page.get_by_role("log", name=f"{model}@default").get_by_role("listitem")


def test_a_message_is_answered_by_each_model(signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{CHAT}&model=poet@default")
    settings(page, Temperature=0, Max_tokens=12)
    send(page, "What is 7?")
    for model in ("writer", "poet"):
        answer = turns(page, model)
        expect(answer).to_contain_text("You: What is 7?")
        expect(answer).to_contain_text("12 tokens · ")
        expect(answer).to_contain_text("max tokens reached")
        assert answer.locator(".written").inner_text()
    expect(page.get_by_label("Message")).to_be_focused()
    expect(page.get_by_label("Message")).to_have_value("")


def test_an_answer_is_shown_while_it_is_written_and_stop_ends_it(
    at_web: BrowserContext, redis_client: redis.Redis, inference_worker: InferenceWorker
) -> None:
    page = at_web.new_page()
    page.goto(CHAT)
    settings(page, Temperature=0, Max_tokens=LONG)
    send(page, "Write a long text.")
    answer = turns(page, "writer")
    expect(answer.locator(".written")).not_to_be_empty()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Stop").click()
    expect(answer).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    wait_until(lambda: depth(redis_client) == 0, inference_worker)
    expect(answer).not_to_contain_text(f"{LONG} tokens")


def test_a_connection_that_breaks_is_called_lost(signed_in: Page, watch: Watch) -> None:
    page = signed_in
    watch.expected += MEANT
    page.goto(CHAT)
    answers = turns(page, "writer")
    for count, breaks in enumerate((abort, streams('{"choices": []}')), 1):
        page.route(COMPLETIONS, breaks)
        send(page, "Hello")
        expect(answers).to_have_count(count)
        expect(answers.last).to_contain_text("connection_lost")
        expect(answers.last).to_contain_text("failed")
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        page.unroute(COMPLETIONS)


def test_chosen_quality_computes_the_answer_and_its_text_is_shown_with_its_markup(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    page, answer = signed_in, signed_in.locator("#answer")
    page.goto("/t/acme/playground/?model=triage@default")
    expect(page.get_by_label("Model default")).to_be_checked()
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_label("Fast").check()
    page.get_by_label("Text", exact=True).press("Control+Enter")
    expect(answer).to_contain_text("Answered from precomputed results")
    expect(answer).to_contain_text("<b>heart</b>")
    expect(answer.get_by_role("term").filter(has_text="Confidence")).to_be_visible()
    answer.locator("summary", has_text="Details").click()
    shades = answer.locator(".shaded").evaluate(SHADES)
    assert {level for _, level in shades} <= {"trigram", "bigram", "unigram"}
    page.get_by_label("Exact").check()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer).to_contain_text("Answered by the full model")
    expect(answer).to_contain_text("No token came from the lookup tables: everything was computed.")
    expect(answer.locator(".shaded")).to_have_count(0)
    page.get_by_role("list", name="Examples from the test split of Tickets").get_by_role(
        "button"
    ).first.click()
    expect(page.get_by_label("Exact")).to_be_checked()
