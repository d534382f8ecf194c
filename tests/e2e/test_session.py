"""The colours that a person chose, and the navigation on a phone."""

from playwright.sync_api import Page, expect

from tests.e2e.conftest import sign_in
from tests.e2e.world import World


def test_the_colours_are_chosen_by_keyboard_and_stay_in_this_browser(signed_in: Page) -> None:
    page = signed_in
    chosen = page.get_by_role("group", name="Theme")
    grounds: dict[str, str] = {}
    for name, key in (("System", ""), ("Light", "ArrowRight"), ("Dark", "ArrowRight")):
        if key:
            chosen.get_by_role("radio", checked=True).press(key)
            expect(page.locator("html")).to_have_attribute("data-theme", name.lower())
        for system in ("light", "dark"):
            page.emulate_media(color_scheme=system)
            page.reload()
            expect(chosen.get_by_role("radio", name=name)).to_be_checked()
            grounds[f"{name}, {system}"] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light, dark = grounds["System, light"], grounds["System, dark"]
    assert light != dark
    assert list(grounds.values()) == [light, dark, light, light, dark, dark]
    chosen.get_by_role("radio", name="System").check(force=True)
    assert "hmi_theme" not in page.evaluate("document.cookie")
    page.context.add_cookies([{"name": "hmi_theme", "value": "red", "url": page.url}])
    page.reload()
    expect(chosen.get_by_role("radio", name="System")).to_be_checked()


def test_on_a_phone_the_navigation_opens_from_a_button(page: Page, world: World) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sign_in(page, world.owner.username)
    jobs = page.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs")
    expect(jobs).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    jobs.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
