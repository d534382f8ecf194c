"""The page of those who run the inference workers, with one that really works."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Enter
from tests.e2e.test_trying import TEXT, ask
from tests.e2e.world import World
from tests.processes import InferenceWorker
from tests.unit.inference.engine.chrome_traces import lanes_of


def test_what_a_worker_did_is_shown_and_can_be_downloaded(
    page: Page, enter: Enter, world: World, inference_worker: InferenceWorker
) -> None:
    enter(world.owner)
    ask(page, TEXT)
    expect(page.locator("#answer")).to_contain_text("acme/triage v1")
    enter(world.admin)
    page.goto("/admin/serving/")

    # The page fetches itself anew until the worker's next heartbeat has told of the batch.
    for stage in ("retrieval", "adapters", "compute"):
        expect(page.get_by_role("img", name=stage)).to_be_visible()
    expect(page.get_by_text("of 1 request")).to_be_visible()
    with page.expect_download() as downloading:
        # In one step, since what is shown of the workers is replaced.
        page.get_by_role("link", name="Download trace").evaluate("link => link.click()")
    assert downloading.value.suggested_filename == f"trace-{inference_worker.name}.json"
    stages = lanes_of(Path(downloading.value.path()).read_text(), process=inference_worker.name)
    # A batch at each level, for the text goes on; what was computed before the worker was ready is not in it.
    computed, looked_up = ([event["name"] for event in stages[name]] for name in ("compute", "retrieval"))
    assert len(computed) == 2
    assert looked_up == [name.replace("compute", "retrieve") for name in computed]
    assert stages["adapters"]
