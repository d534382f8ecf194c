"""Trying a model: a real inference worker answers."""

import json
import shlex

import httpx
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from tenants.accounts.services.api_keys import api_key_create
from tests.e2e.gallery import furnish_kinds, furnish_tagger
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.processes import InferenceWorker
from tests.unit.tiny import tiny_texts

TEXT = "a drug for the heart of the patient"
COLOURS = """(answer, levels) => levels.map((level) => [
  getComputedStyle(answer.querySelector(`rect.hue-${level}`)).fill,
  getComputedStyle(answer.querySelector(`.shade.${level}`)).textDecorationColor,
])"""
MARKS = """marked => [...marked.querySelectorAll("mark")].map((mark) =>
  [mark.firstChild.data, mark.querySelector("small").textContent.split(" ")[0]])"""
SHADES = """shaded => [...shaded.querySelectorAll(".shade")].map((shade) =>
  [shade.textContent, shade.className.replace("shade ", "")])"""


def ask(page: Page, text: str) -> None:
    """Put a text to the model that the link names."""
    page.goto("/t/acme/playground/?model=triage@default")
    expect(page.get_by_label("Default: policy of the version")).to_be_checked()
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Send", exact=True).click()


def replace_by(page: Page, reference: str) -> None:
    """Ask another model instead of the one that is chosen."""
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("list", name="Chosen")).to_have_count(0)
    page.get_by_label("Models", exact=True).fill(reference)
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("list", name="Chosen")).to_contain_text(reference)


def test_without_an_inference_worker_the_page_says_so(signed_in: Page, world: World) -> None:
    """The first of this file: the others share a worker that goes on."""
    ask(signed_in, TEXT)
    expect(signed_in.get_by_role("alert")).to_contain_text("No inference worker is ready")


def test_the_answer_shows_scores_times_and_where_the_fragments_came_from(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    signed_in.goto("/t/acme/playground/?model=triage@default")
    examples = signed_in.get_by_role("list", name="Examples from the test split of Tickets")
    row = examples.get_by_role("button").nth(1)
    shown = row.locator("span").inner_text()
    row.click()
    expect(signed_in.get_by_label("Text", exact=True)).to_have_value(shown)
    expect(row).to_be_focused()
    signed_in.get_by_role("button", name="Send", exact=True).click()
    answer = signed_in.locator("#answer")
    expect(answer).to_contain_text("acme/triage v1")
    expect(answer.get_by_role("progressbar")).to_have_count(4)
    times = ("Queue", "Retrieval", "Adapter load", "Compute", "Rest")
    for part in (*times, "Whole fragment", "Shorter part", "One token", "Computed"):
        expect(answer.locator(".legend").get_by_text(part, exact=True)).to_be_visible()
    answer.get_by_text("What is included").click()
    expect(answer.get_by_role("term").filter(has_text="Rest")).to_be_visible()
    levels = ["trigram", "bigram", "unigram", "computed"]
    colours = answer.evaluate(COLOURS, levels)
    assert len({tuple(pair) for pair in colours}) == len(levels)
    assert all(filled == underlined for filled, underlined in colours)


def test_a_quality_is_chosen_and_the_answer_says_how_it_was_made(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    page, answer = signed_in, signed_in.locator("#answer")
    page.goto("/t/acme/playground/?model=triage@default")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_label("Fast").check()
    page.get_by_label("Text", exact=True).press("Control+Enter")
    expect(answer).to_contain_text("From the lookup tables")
    expect(answer.get_by_role("term").filter(has_text="Confidence")).to_be_visible()
    shades = answer.locator(".shaded").evaluate(SHADES)
    assert {level for _, level in shades} <= {"trigram", "bigram", "unigram"}
    page.get_by_label("Exact").check()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer).to_contain_text("Computed in full")
    expect(answer).to_contain_text("No token came from the lookup tables: everything was computed.")
    expect(answer.locator(".shaded")).to_have_count(0)
    page.get_by_role("list", name="Examples from the test split of Tickets").get_by_role(
        "button"
    ).first.click()
    expect(page.get_by_label("Exact")).to_be_checked()


def test_two_hplms_are_compared_on_one_text_token_by_token_and_copied(
    signed_in: Page, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    furnish_kinds(world, files)
    page, text = signed_in, 'a drug for the zebra\'s "heart"\nof مرحبا 👩'
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/t/acme/playground/?model=triage@default")
    page.get_by_label("Text", exact=True).fill(text)
    chosen, adding = (
        page.get_by_role("list", name="Chosen").get_by_role("listitem"),
        page.get_by_label("Models", exact=True),
    )
    for name in ("absent", "same-meaning@default", "topics@default"):
        adding.press_sequentially(name[:5])
        if name != "absent":
            adding.fill(name)
        adding.press("Enter")
        expect(page.locator("#ask .errorlist, #ask .chips")).not_to_have_count(0)
        if name == "topics@default":
            expect(chosen).to_have_count(2)
        else:
            said = "no such model" if name == "absent" else "only models with the same kind of input"
            expect(page.get_by_role("alert")).to_contain_text(said)
        expect(page.get_by_label("Text", exact=True)).to_have_value(text)
    page.wait_for_url("**/playground/?model=triage@default&model=topics@default")
    page.get_by_role("button", name="Send", exact=True).click()
    columns = page.locator("#answer article")
    expect(columns).to_have_count(2)
    expect(columns.nth(0)).to_contain_text("acme/triage v1")
    expect(columns.nth(1)).to_contain_text("acme/topics v1")
    for column in columns.all():
        shaded = column.locator(".shaded")
        words = [shade.inner_text() for shade in shaded.locator(".shade").all()]
        assert words[:4] == ["a", "drug", "for", "the"]
        levels = {shade.get_attribute("title") for shade in shaded.locator(".shade").all()}
        assert levels <= {"Whole fragment", "Shorter part", "One token", "Computed"}
        assert levels
    columns.nth(1).get_by_text("API request").click()
    columns.nth(1).get_by_role("button", name="Copy").first.click()
    copied = page.wait_for_function("navigator.clipboard.readText()").json_value()
    sent = json.loads(shlex.split(copied.replace(" \\\n", " "))[-1])
    assert sent == {"model": "acme/topics@default", "inputs": [text]}
    page.get_by_role("button", name="Remove triage@default").click()
    expect(chosen).to_have_count(1)
    page.wait_for_url("**/playground/?model=topics@default")
    expect(page.get_by_label("Text", exact=True)).to_have_value(text)


def test_a_text_that_is_too_long_is_answered_with_a_remark(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    ask(signed_in, f"{TEXT}. " * 40)
    expect(signed_in.locator("#answer")).to_contain_text("was truncated")


def test_markup_in_a_text_stays_text(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    ask(signed_in, "<script>document.title = 'broken'</script> <b>heart</b>")
    expect(signed_in.locator("#answer")).to_contain_text("acme/triage v1")
    expect(signed_in).to_have_title("Playground · HMI")


def test_every_kind_of_hplm_is_asked_for_what_it_reads(
    signed_in: Page, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    furnish_kinds(world, files)
    page, answer = signed_in, signed_in.locator("#answer")
    page.goto("/t/acme/playground/?model=topics@default")
    expect(page.get_by_label("Second text")).to_have_count(0)
    for name, first, second in (
        ("same-meaning", "First text", "Second text"),
        ("leaflet-questions", "Question", "Context"),
    ):
        replace_by(page, f"{name}@default")
        page.get_by_label(first, exact=True).fill("what helps the heart")
        page.get_by_label(second, exact=True).fill(TEXT)
        page.get_by_role("button", name="Send", exact=True).click()
        expect(answer).to_contain_text(f"acme/{name} v1")
    replace_by(page, "pain-score@default")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer).to_contain_text("acme/pain-score v1")


def test_spans_are_marked_where_they_stand_and_each_token_has_the_colour_of_its_level(
    signed_in: Page,
    world: World,
    files: TinyFiles,
    inference_worker: InferenceWorker,
    live_server: LiveServer,
) -> None:
    """As the API tells the same."""
    furnish_tagger(world, files)
    _, key = api_key_create(tenant=world.tenant, name="k", scopes=["infer"], created_by=world.owner)
    text = f"{' '.join(tiny_texts(4))} \u0645\u0631\u062d\u0628\u0627 zebra"
    page, answer = signed_in, signed_in.locator("#answer")
    page.goto("/t/acme/playground/?model=side-effects@default")
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer).to_contain_text("acme/side-effects v1")
    asked = {"model": "acme/side-effects@default", "inputs": [text], "explain": True}
    headers = {"Authorization": f"Bearer {key}"}
    told = httpx.post(f"{live_server.url}/api/v1/infer", json=asked, headers=headers, timeout=60).json()[
        "results"
    ][0]
    assert len(told["spans"]) > 1
    expect(answer).to_contain_text(f"{len(told['spans'])} spans found")
    marks = answer.locator(".marked").evaluate(MARKS)
    assert marks == [[text[span["start"] : span["end"]], span["label"]] for span in told["spans"]]
    shades = answer.locator(".shaded").evaluate(SHADES)
    assert shades == [[text[one["start"] : one["end"]], one["level"]] for one in told["tokens"]]
    assert len({level for _, level in shades}) > 1
