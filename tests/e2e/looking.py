"""Looking at pages: pictures for people, and what a machine can say about each."""

import os
from collections import defaultdict
from collections.abc import Iterable
from http.client import BAD_REQUEST
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize

from tests.e2e.axe import violations
from tests.integration.routes.conf import route_of

SIZES: dict[str, ViewportSize] = {
    "desktop": {"width": 1280, "height": 900},
    "tablet": {"width": 768, "height": 1024},
    "phone": {"width": 360, "height": 740},
}
Scheme = Literal["light", "dark"]
BETWEEN = "tablet"
"""Of this size there are no pictures, and only what may come with the width is asked."""
WANTED = "HMI_SCREENSHOTS"
HERE = Path(__file__).parent
RULES = (HERE / "rules.js").read_text()
KEYBOARD = (HERE / "keyboard.js").read_text()
OPENERS = "button[popovertarget]:not([popovertargetaction=hide])"
MOST_DIALOGS = 4
JUDGED: set[tuple[str, Scheme]] = {("desktop", "light"), ("phone", "dark")}
"""axe-core looks at each size and at each colour scheme; at every pair of them only where pictures are
wanted. Other states of a page that was looked at before are judged in light alone, and not gone through by
keyboard: their colours and controls are the same."""


def is_wanted() -> bool:
    """Whether somebody wants pictures."""
    return bool(os.environ.get(WANTED))


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page, where somebody wants pictures."""
    if wanted := os.environ.get(WANTED):
        Path(wanted).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(wanted) / f"{name}.png", full_page=True, animations="disabled")


def settle(page: Page) -> None:
    """What fades from one colour to another is at its end; what goes round and round has none."""
    page.evaluate(
        """() => document.getAnimations().forEach((one) => {
            if (one.effect.getComputedTiming().endTime !== Infinity) one.finish();
        })"""
    )


def beyond(page: Page) -> int:
    """By how much the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


class Looker:
    """Looks at what a tab shows, in each size and in both colour schemes; `faults` has what was wrong, by
    page, `seen` the routes of the pages that were to be had, also of those that others looked at before.

    Of pages that are another's, those of the administration, it asks only what axe-core does, and not that of
    the parts in `without`.
    """

    def __init__(self, page: Page, axe: str, seen: set[str]) -> None:
        self.page = page
        self.ours = True
        self.without: tuple[str, ...] = ()
        self.faults: defaultdict[str, list[str]] = defaultdict(list)
        self.seen = seen
        self._axe = axe
        self._titles: dict[str, str] = {}
        self._tried: set[tuple[str, ...]] = set()

    def look(self, name: str) -> None:
        """Look at the page that is open, as a desktop shows it in light."""
        known = self._is_had() and not self._meet(name)
        for size in SIZES:
            self._show(name, size, "light")
            self._note(f"{name}, {size}", self._by_width())
            self._judge(name, size, "light")
        if not known or is_wanted():
            self._look_in_dark(name)
        self.page.set_viewport_size(SIZES["desktop"])
        if self.ours and not known:
            self._note(name, self._by_keyboard())

    def _look_in_dark(self, name: str) -> None:
        self.page.emulate_media(color_scheme="dark")
        if not self.ours:
            self.page.reload()  # django-unfold asks for the scheme once
        for size in ("phone", "desktop") if is_wanted() else ("phone",):  # the light one ended with the phone
            self._show(name, size, "dark")
            self._judge(name, size, "dark")
        self.page.emulate_media(color_scheme="light")

    def found_nothing(self) -> None:
        """Fails with all that was wrong, page by page."""
        lines = [f"{where}: {fault}" for where, faults in self.faults.items() for fault in faults]
        assert not lines, "\n".join(lines)

    def _show(self, name: str, size: str, scheme: Scheme) -> None:
        """As it is in this size, and a picture of it."""
        self.page.set_viewport_size(SIZES[size])
        settle(self.page)
        if size != BETWEEN:
            picture(self.page, f"{name}-{size}-{scheme}")

    def _judge(self, name: str, size: str, scheme: Scheme) -> None:
        """What axe-core says of the page as it is, and whether its dialogs can be used."""
        if (size, scheme) in JUDGED or (is_wanted() and size != BETWEEN):
            self._note(f"{name}, {size}, {scheme}", [*self._violations(), *self._dialogs()])

    def _by_width(self) -> list[str]:
        """What may come with the width of the window. At the end of the page a bar that stays at the edge of
        the window stands in its own place, below what it covers elsewhere."""
        wider = beyond(self.page)
        found = [f"is {wider} px wider than the window"] if wider > 0 else []
        if self.ours:
            self.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            found += self.page.evaluate(RULES)
            self.page.evaluate("scrollTo(0, 0)")
        return found

    def _note(self, where: str, faults: Iterable[str]) -> None:
        if found := list(faults):
            self.faults[where] += found

    def _violations(self, within: str = ":root") -> list[str]:
        return violations(self.page, self._axe, within=within, without=self.without)

    def _is_had(self) -> bool:
        """Whether the page says more than that something is not to be had."""
        status = self.page.evaluate("performance.getEntriesByType('navigation')[0].responseStatus")
        return bool(status < BAD_REQUEST)

    def _meet(self, name: str) -> bool:
        """Whether nobody saw its route before. No two pages of ours are called the same."""
        title, path = self.page.title(), self.page.evaluate("location.pathname")
        route = route_of(path)
        is_new = route not in self.seen
        self.seen.add(route)
        if self.ours and self._titles.setdefault(title, path) != path:
            self.faults[name].append(f"is called {title!r}, as the page at {self._titles[title]} is")
        return is_new

    def _by_keyboard(self) -> list[str]:
        """Press Tab through the page; fields of dates take it several times."""
        self.page.evaluate(KEYBOARD)
        for _ in range(4):
            for _ in range(self.page.evaluate("keyboard.wanted()") + 5):
                self.page.keyboard.down("Tab")  # held, it goes on
            self.page.keyboard.up("Tab")
            if self.page.evaluate("keyboard.done()"):
                break
        found: list[str] = self.page.evaluate("keyboard.faults()")
        return found

    def _dialogs(self) -> list[str]:
        """Each opens by the keyboard, keeps the rules, takes the focus if it asks something, and goes by
        Escape, which gives the focus back. Those that were tried with the same words, on whatever page, are
        left out."""
        faults: list[str] = []
        openers = [one for one in self.page.locator(OPENERS).all() if one.is_visible()]
        for opener in openers[:MOST_DIALOGS]:
            name = str(opener.get_attribute("popovertarget"))
            dialog = self.page.locator(f"[id='{name}']")
            known = (name, *dialog.all_text_contents())
            if known in self._tried:
                continue
            self._tried.add(known)
            opener.focus()
            self.page.keyboard.press("Enter")
            if not dialog.is_visible():
                faults.append(f"nothing opens for #{name}")
                continue
            faults += [f"#{name}: {fault}" for fault in self._violations(within=f"[id='{name}']")]
            asks = "dialog" in (dialog.get_attribute("role") or "")
            if asks and not dialog.evaluate("dialog => dialog.contains(document.activeElement)"):
                faults.append(f"#{name} does not take the focus")
            self.page.keyboard.press("Escape")
            if dialog.is_visible():
                faults.append(f"#{name} does not go by Escape")
            if not opener.evaluate("opener => opener === document.activeElement"):
                faults.append(f"#{name} does not give the focus back")
            opener.blur()
        return faults
