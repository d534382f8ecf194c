"""Trying a model: a real inference worker answers."""

from playwright.sync_api import Page, expect

from tests.e2e.gallery import furnish_kinds
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.processes import InferenceWorker

TEXT = "a drug for the heart of the patient"


def ask(page: Page, text: str) -> None:
    """Put a text to the hPLM that the link names."""
    page.goto("/t/acme/try/?model=triage@default")
    page.get_by_label("Text").fill(text)
    page.get_by_role("button", name="Answer").click()


def test_the_answer_shows_scores_times_and_where_the_fragments_came_from(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    ask(signed_in, TEXT)
    answer = signed_in.locator("#answer")
    expect(answer).to_contain_text("acme/triage v1")
    expect(answer.get_by_role("progressbar")).to_have_count(4)
    times = ("Queue", "Retrieval", "Adapter load", "Compute")
    for part in (*times, "Whole fragment", "A part of it", "Its token alone", "Computed"):
        expect(answer.get_by_text(part, exact=True)).to_be_visible()


def test_a_text_that_is_too_long_is_answered_with_a_remark(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    ask(signed_in, f"{TEXT}. " * 40)
    expect(signed_in.locator("#answer")).to_contain_text("only its beginning was used")


def test_without_an_inference_worker_the_page_says_so(signed_in: Page, world: World) -> None:
    ask(signed_in, TEXT)
    expect(signed_in.get_by_role("alert")).to_contain_text("No inference worker is ready")


def test_markup_in_a_text_stays_text(
    signed_in: Page, world: World, inference_worker: InferenceWorker
) -> None:
    ask(signed_in, "<script>document.title = 'broken'</script> <b>heart</b>")
    expect(signed_in.locator("#answer")).to_contain_text("acme/triage v1")
    expect(signed_in).to_have_title("Try an hPLM · HMI")


def test_every_kind_of_hplm_is_asked_for_what_it_reads(
    signed_in: Page, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    furnish_kinds(world, files)
    page, answer = signed_in, signed_in.locator("#answer")
    page.goto("/t/acme/try/?model=topics@default")
    expect(page.get_by_label("Second text")).to_have_count(0)
    for name, first, second in (
        ("same-meaning", "First text", "Second text"),
        ("leaflet-questions", "Question", "Context"),
    ):
        page.get_by_label("hPLM", exact=True).select_option(f"{name}@default")
        page.get_by_label(first).fill("what helps the heart")
        page.get_by_label(second).fill(TEXT)
        page.get_by_role("button", name="Answer").click()
        expect(answer).to_contain_text(f"acme/{name} v1", timeout=20_000)
    page.get_by_label("hPLM", exact=True).select_option("pain-score@default")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_role("button", name="Answer").click()
    expect(answer).to_contain_text("acme/pain-score v1", timeout=20_000)
