"""API keys: made, shown once, revoked."""

import re

from playwright.sync_api import Page, expect


def test_created_key_is_shown_once_and_has_no_button_once_revoked(signed_in: Page) -> None:
    page = signed_in
    page.goto("/t/acme/keys/")
    page.get_by_label("Name").fill("Help desk")
    page.get_by_role("button", name="Create key").click()
    plaintext = page.locator("#new-key").text_content()
    page.wait_for_load_state()  # until the scripts have run a reload would send the form again
    assert plaintext is not None
    assert re.fullmatch(r"\w{8}\.\w{32}", plaintext)
    page.reload()
    row = page.get_by_role("row", name="Help desk")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Active")
    assert plaintext not in page.content()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("Revoked and expired in the last 30 days (1)").click()
    expect(row).to_contain_text("Revoked")
    expect(row.get_by_role("button")).to_have_count(0)
