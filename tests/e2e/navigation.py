"""Going from one page to the next."""

from playwright.sync_api import Locator


def follow(control: Locator) -> None:
    """Click a link or a button and wait for the page that it leads to.

    A click alone returns while the old page still stands, and looking at it then meets the change.
    """
    with control.page.expect_navigation():
        control.click()
