"""Uploads that are interrupted, in a real browser: they go on by themselves, and lose and repeat nothing."""

import hashlib
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect

from tenants.datasets.models import Upload
from tests.integration.serving_faults.servers import Web

MEBIBYTE = 1024**2
PIECE = 8 * MEBIBYTE
NEW_CORPUS = "/t/acme/data/corpora/new/"
LISTEN = """window.said = []; new MutationObserver(() => {
  window.said.push(document.querySelector(".upload-state")?.textContent ?? "");
}).observe(document, {subtree: true, childList: true});"""
"""Keeps what the page says of an upload."""
HOLD = """const send = window.fetch; window.fetch = async (address, given = {}) => {
  while (given.method === "PATCH" && given.headers["Upload-Offset"] > 0 && !sessionStorage.goesOn)
    await new Promise((later) => setTimeout(later, 50));
  return send(address, given);
};"""
"""Sends no piece but the first until it is told to: what comes between finds the upload half done."""
GO_ON = "sessionStorage.goesOn = true"
LINE = b"the patient felt dizzy in the morning, number %09d\n"


@pytest.fixture
def tab(at_web: BrowserContext) -> Page:
    """A tab of the owner's."""
    return at_web.new_page()


@pytest.fixture
def large_file(tmp_path: Path) -> Path:
    """A corpus of a few pieces."""
    return corpus_of(3 * PIECE, tmp_path)


def corpus_of(size: int, folder: Path) -> Path:
    """A corpus of about so many bytes."""
    path = folder / "leaflets-of-june.txt"
    with path.open("wb") as file:
        file.writelines(LINE % number for number in range(size // len(LINE % 0)))
    return path


def offsets_of(page: Page) -> list[int]:
    """Where each piece that is answered began; grows as the page sends."""
    offsets: list[int] = []

    def note(request: Request) -> None:
        if request.method == "PATCH":
            offsets.append(int(request.headers["upload-offset"]))

    page.on("requestfinished", note)
    return offsets


def choose(page: Page, file: Path) -> None:
    """Choose the file; returns when its first piece is there."""
    page.goto(NEW_CORPUS)
    page.get_by_label("Name", exact=True).fill("Leaflets of June")
    with page.expect_response(lambda response: response.request.method == "PATCH"):
        page.get_by_label("Text file").set_input_files(file)


def complete(page: Page, file: Path) -> None:
    """Wait for the end, and see that what is there is what was chosen."""
    expect(page.get_by_text("Uploaded", exact=True)).to_be_visible(timeout=60_000)
    upload = Upload.unscoped.get()
    assert (upload.is_complete, upload.size_bytes) == (True, file.stat().st_size)


def test_an_upload_goes_on_when_the_browser_is_online_again(tab: Page, large_file: Path) -> None:
    offsets = offsets_of(tab)
    tab.add_init_script(LISTEN)
    tab.add_init_script(HOLD)
    choose(tab, large_file)
    tab.context.set_offline(True)
    tab.evaluate(GO_ON)
    expect(tab.get_by_text("Connection lost")).to_be_visible()
    expect(tab.get_by_role("button", name="Check")).to_be_disabled()
    tab.context.set_offline(False)
    complete(tab, large_file)
    assert sorted(set(offsets)) == offsets
    told = re.compile(r"\d+%, [\d.]+ MB/s, \d+ (s|min) left")
    assert any(told.fullmatch(said) for said in tab.evaluate("said"))


def test_an_upload_survives_the_death_of_the_web_server(tab: Page, web: Web, large_file: Path) -> None:
    tab.add_init_script(HOLD)
    choose(tab, large_file)
    web.kill()
    tab.evaluate(GO_ON)
    expect(tab.get_by_text("Connection lost")).to_be_visible()
    web.start()
    complete(tab, large_file)


def test_a_file_that_is_chosen_again_after_a_reload_goes_on_where_it_was(tab: Page, large_file: Path) -> None:
    tab.add_init_script(HOLD)
    choose(tab, large_file)
    tab.reload()
    tab.evaluate(GO_ON)
    began = Upload.unscoped.get().pk
    offsets = offsets_of(tab)
    choose(tab, large_file)
    complete(tab, large_file)
    assert offsets[0] >= PIECE
    assert Upload.unscoped.get().pk == began


def changed(file: Path) -> str:
    """Change the content, but neither size nor time. Returns the new sha256."""
    before = file.stat()
    content = file.read_bytes().replace(b"morning", b"evening")
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return hashlib.sha256(content).hexdigest()


def test_renamed_or_changed_file_is_another_upload(tab: Page, tmp_path: Path) -> None:
    file = corpus_of(MEBIBYTE, tmp_path)
    choose(tab, file)
    complete(tab, file)
    renamed = file.rename(tmp_path / "leaflets.txt")
    choose(tab, renamed)
    expect(tab.get_by_text("Uploaded", exact=True)).to_be_visible()
    digest = changed(renamed)
    choose(tab, renamed)
    expect(tab.get_by_text("Uploaded", exact=True)).to_be_visible()
    assert Upload.unscoped.latest("created_at").sha256 == digest
    names = Upload.unscoped.order_by("created_at").values_list("filename", flat=True)
    assert list(names) == ["leaflets-of-june.txt", "leaflets.txt", "leaflets.txt"]


def test_a_file_that_changed_while_it_was_half_done_begins_anew(tab: Page, large_file: Path) -> None:
    tab.add_init_script(HOLD)
    choose(tab, large_file)
    tab.reload()
    tab.evaluate(GO_ON)
    digest = changed(large_file)
    choose(tab, large_file)
    complete(tab, large_file)
    assert Upload.unscoped.get().sha256 == digest
