"""Uploading a dataset: files that are dropped, rows that are skipped, a preview that no longer fits."""

from playwright.sync_api import FilePayload, Page, expect

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
