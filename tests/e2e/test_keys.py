"""API keys: made, shown once, revoked."""

import re

from playwright.sync_api import Page, expect

KEYS = "/t/acme/keys/"


def make_key(page: Page) -> str:
    """Create a key through the form; its plaintext."""
    page.goto(KEYS)
    page.get_by_label("Name").fill("Help desk")
    page.get_by_role("button", name="Create key").click()
    plaintext = page.locator("#new-key").text_content()
    page.wait_for_load_state()  # until the scripts have run a reload would send the form again
    assert plaintext is not None
    return plaintext


def test_a_key_is_shown_once_and_never_again(signed_in: Page) -> None:
    plaintext = make_key(signed_in)
    assert re.fullmatch(r"\w{8}\.\w{32}", plaintext)
    signed_in.reload()
    expect(signed_in.get_by_role("row", name="Help desk")).to_have_count(1)
    expect(signed_in.get_by_role("row", name="Help desk")).to_contain_text("Active")
    assert plaintext not in signed_in.content()


def test_the_last_day_is_asked_for_where_it_counts(signed_in: Page) -> None:
    signed_in.goto(KEYS)
    expect(signed_in.get_by_label("Last day")).to_be_hidden()
    signed_in.get_by_label("Expires").select_option(label="On a date")
    expect(signed_in.get_by_label("Last day")).to_be_visible()


def test_a_revoked_key_is_marked_and_has_no_button_left(signed_in: Page) -> None:
    make_key(signed_in)
    signed_in.get_by_role("button", name="Revoke").click()
    signed_in.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    signed_in.get_by_text("Revoked and expired in the last 30 days (1)").click()
    row = signed_in.get_by_role("row", name="Help desk")
    expect(row).to_contain_text("Revoked")
    expect(row.get_by_role("button")).to_have_count(0)


def test_a_rotated_key_goes_on_for_as_long_as_is_chosen_and_is_followed_by_another(signed_in: Page) -> None:
    before = make_key(signed_in)
    signed_in.get_by_role("button", name="Rotate Help desk").click()
    question = signed_in.get_by_role("dialog", name="Rotate this key?")
    question.get_by_label("The old key").select_option("stays valid for 1 hour")
    question.get_by_role("button", name="Rotate").click()
    expect(signed_in.get_by_role("heading", name=f"New key, replaces {before[:8]}")).to_be_visible()
    after = signed_in.locator("#new-key").text_content()
    signed_in.wait_for_load_state()
    assert after
    assert after != before
    signed_in.reload()
    assert after not in signed_in.content()
    rows = signed_in.get_by_role("row", name="Help desk")
    expect(rows).to_have_count(2)
    old, new = (rows.filter(has_text=words) for words in ("replaced by", "replaces"))
    expect(old).to_contain_text(f"{before[:8]}\u2026 replaced by {after[:8]}\u2026", use_inner_text=True)
    expect(old).to_contain_text("until")
    expect(old.get_by_role("button", name="Rotate")).to_have_count(0)
    expect(new.get_by_role("button", name="Rotate")).to_have_count(1)
