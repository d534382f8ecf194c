"""Trying a model: a real inference worker answers."""

from playwright.sync_api import Page, expect

from tests.e2e.world import World
from tests.processes import InferenceWorker

TEXT = "a drug for the <b>heart</b> of the patient"
SHADES = """shaded => [...shaded.querySelectorAll(".shade")].map((shade) =>
  [shade.textContent, shade.className.replace("shade ", "")])"""


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
