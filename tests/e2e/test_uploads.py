"""Uploading a dataset: files that are dropped, rows that are skipped, a preview that no longer fits."""

from playwright.sync_api import FilePayload, Page, Route, expect

from tests.e2e.looking import picture

NEW_DATASET = "/t/acme/data/datasets/new/"


def given(name: str, content: bytes) -> FilePayload:
    """A file as somebody would choose it."""
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def check_dataset(page: Page, file: FilePayload) -> None:
    """Fill in the form. The file is checked when it is uploaded."""
    page.goto(NEW_DATASET)
    page.get_by_label("Name", exact=True).fill("Tickets of May")
    page.get_by_label("Training file").set_input_files(file)


def test_a_file_that_is_dropped_anywhere_goes_to_the_first_field(signed_in: Page) -> None:
    signed_in.goto(NEW_DATASET)
    field = signed_in.locator(".field", has=signed_in.locator("[name=train]"))
    drag = """(node, kind) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(["{}"], "rows.jsonl"));
        const event = new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true });
        return !node.dispatchEvent(event);
    }"""
    label, heading = field.locator("label"), signed_in.locator("h1")
    place = field.locator("input[type=file]")
    usual = place.evaluate("node => getComputedStyle(node).backgroundColor")
    assert label.evaluate(drag, "dragover")
    expect(field).to_contain_class("over")
    expect(place).not_to_have_css("background-color", usual)
    assert heading.evaluate(drag, "dragover")
    expect(field).to_contain_class("over")
    picture(signed_in, "dataset-over")
    assert heading.evaluate(drag, "drop")
    expect(field).not_to_contain_class("over")
    expect(field.get_by_text("rows.jsonl")).to_be_visible()


def test_files_that_are_dropped_together_go_where_their_names_say(signed_in: Page) -> None:
    signed_in.goto(NEW_DATASET)
    signed_in.evaluate(
        """() => {
            const files = new DataTransfer();
            for (const name of ["my-test.jsonl", "my-train.jsonl", "validation.jsonl"])
                files.items.add(new File(["{}"], name));
            const event = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
            document.querySelector("[name=train]").dispatchEvent(event);
        }"""
    )
    expect(signed_in.get_by_text("Uploaded", exact=True)).to_have_count(3)
    for label, name in (("train", "my-train"), ("dev", "validation"), ("test", "my-test")):
        field = signed_in.locator(".field", has=signed_in.locator(f"[name={label}]"))
        expect(field).to_contain_text(f"{name}.jsonl")


def test_bad_rows_are_skipped_and_another_file_removes_the_preview(signed_in: Page) -> None:
    rows = b"".join(
        b'{"text": "text %d", "label": "%s"}\n' % (n, b"ab"[n % 2 : n % 2 + 1]) for n in range(60)
    )
    check_dataset(signed_in, given("rows.jsonl", rows + b"{broken\n[]\n"))
    signed_in.get_by_role("button", name="Skip these 2 rows and continue").click()
    expect(signed_in.locator("#preview")).to_contain_text("2 rows of train were invalid and left out.")
    signed_in.get_by_label("Training file").set_input_files(given("other.jsonl", rows))
    expect(signed_in.get_by_role("button", name="Save dataset")).to_have_count(0)
    signed_in.get_by_role("button", name="Check").click()
    signed_in.get_by_role("button", name="Save dataset").click()
    expect(signed_in.get_by_role("status").filter(has_text="saved")).to_be_visible()


def test_a_skip_that_is_clicked_while_another_check_runs_is_not_lost(signed_in: Page) -> None:
    rows = b"".join(b'{"text": "text %d", "label": "%d"}\n' % (n, n % 2) for n in range(60))
    check_dataset(signed_in, given("rows.jsonl", rows + b"{broken\n"))
    skip = signed_in.get_by_role("button", name="Skip this row and continue")
    expect(skip).to_be_visible()
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    signed_in.route("**/datasets/check/", hold_first)
    signed_in.get_by_role("button", name="Check").click()
    expect(signed_in.get_by_role("button", name="Check")).to_be_disabled()
    skip.click()
    held[0].continue_()
    expect(signed_in.locator("#preview")).to_contain_text("1 row of train was invalid and left out.")


def test_a_check_leads_to_the_column_that_it_asks_for_and_then_to_its_result(signed_in: Page) -> None:
    rows = b"".join(b'{"message": "text %d", "about": "%d"}\n' % (n, n % 2) for n in range(60))
    check_dataset(signed_in, given("rows.jsonl", rows))
    label = signed_in.locator("#columns").get_by_label("Label")
    expect(label).to_be_in_viewport()
    expect(signed_in.locator("#preview")).to_contain_text("no column 'label'; found: 'message', 'about'.")
    label.select_option("about")
    signed_in.get_by_role("button", name="Check").click()
    expect(signed_in.locator("#preview")).to_be_focused()
    expect(signed_in.get_by_role("button", name="Save dataset")).to_be_in_viewport()
