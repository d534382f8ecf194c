"""Trying a model: a real inference worker answers."""

import json
import shlex

from playwright.sync_api import Page, expect

from tests.e2e.gallery import furnish_kinds
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.processes import InferenceWorker

TEXT = "a drug for the heart of the patient"
SHADES = """shaded => [...shaded.querySelectorAll(".shade")].map((shade) =>
  [shade.textContent, shade.className.replace("shade ", "")])"""


def ask(page: Page, text: str) -> None:
    """Put a text to the model that the link names."""
    page.goto("/t/acme/playground/?model=triage@default")
    expect(page.get_by_label("Default: policy of the version")).to_be_checked()
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Send", exact=True).click()


def test_without_an_inference_worker_the_page_says_so(signed_in: Page, world: World) -> None:
    """The first of this file: the others share a worker that goes on."""
    ask(signed_in, TEXT)
    expect(signed_in.get_by_role("alert")).to_contain_text("No inference worker is ready")


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


def test_markup_in_a_text_stays_text(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    ask(signed_in, "<script>document.title = 'broken'</script> <b>heart</b>")
    expect(signed_in.locator("#answer")).to_contain_text("acme/triage v1")
    expect(signed_in).to_have_title("Playground · HMI")
