"""The drawing of the version tree: zoom, dragging, branches, search and cards."""

from playwright.sync_api import Page, expect

UNMARKED = "rgba(0, 0, 0, 0)"
SCROLLED = "canvas => [canvas.scrollLeft, canvas.scrollTop]"


def width(page: Page) -> float:
    """That of a box of the drawing, as it is seen."""
    box = page.locator(".node-box").first.bounding_box()
    assert box is not None
    return box["width"]


def drag(page: Page, start: tuple[float, float], across: float) -> None:
    """Take the drawing at a point, and pull it so far to the left."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] - across, start[1], steps=4)
    page.mouse.up()


def test_tree_is_zoomed_and_dragged(signed_in: Page) -> None:
    page = signed_in
    page.set_viewport_size({"width": 900, "height": 700})
    page.goto("/t/acme/tree/")
    sizes = page.get_by_role("group", name="Zoom")
    widths = {"100%": width(page)}
    for name in ("75%", "50%", "150%"):
        sizes.get_by_text(name, exact=True).click()
        widths[name] = width(page)
    assert {name: round(found / widths["100%"], 2) for name, found in widths.items()} == {
        "100%": 1,
        "75%": 0.75,
        "50%": 0.5,
        "150%": 1.5,
    }
    canvas = page.locator("#drawing")
    frame = canvas.bounding_box()
    assert frame is not None
    empty = (frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] - 40)
    drag(page, empty, 120)
    assert canvas.evaluate(SCROLLED) == [120, 0]
    page.mouse.move(empty[0] - 300, empty[1])
    assert canvas.evaluate(SCROLLED) == [120, 0], "it is let go"
    box = page.locator(".node-box").nth(1).bounding_box()
    assert box is not None
    drag(page, (box["x"] + box["width"] / 2, box["y"] + 4), 60)
    assert canvas.evaluate(SCROLLED) == [120, 0], "a box is no handle"
    expect(page.get_by_label("Details")).to_be_hidden()


def test_tree_branch_closes_and_opens_and_the_tree_is_searched(signed_in: Page) -> None:
    signed_in.goto("/t/acme/tree/")
    limb = signed_in.get_by_role("button", name="medicine: 1 below")
    limb.click()
    expect(limb).to_have_attribute("aria-expanded", "false")
    expect(signed_in.get_by_role("link", name="triage", exact=True)).to_have_count(0)
    limb.click()
    expect(signed_in.get_by_role("link", name="triage", exact=True)).to_be_visible()
    signed_in.get_by_label("Search by name").fill("absent")
    expect(signed_in.get_by_text("No matches")).to_be_visible()
    signed_in.get_by_label("Search by name").fill("tri")
    found = signed_in.get_by_role("link", name="triage", exact=True)
    expect(found).to_be_visible()
    expect(found).not_to_have_css("background-color", UNMARKED)
    expect(signed_in.get_by_role("link", name="medicine", exact=True)).to_have_css(
        "background-color", UNMARKED
    )
    signed_in.wait_for_url("**/tree/?q=tri")
    signed_in.go_back()
    expect(signed_in.get_by_label("Search by name")).to_have_value("absent")
    expect(signed_in.get_by_text("No matches")).to_be_visible()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Version tree")


def test_tree_node_opens_its_card(signed_in: Page) -> None:
    signed_in.goto("/t/acme/tree/")
    signed_in.wait_for_load_state()  # a card opens beside the tree once the scripts have run
    signed_in.get_by_role("link", name="triage", exact=True).click()
    card = signed_in.get_by_label("Details")
    expect(card).to_contain_text("Based on medicine v1")
    card.get_by_role("link", name="Open").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("triage")
