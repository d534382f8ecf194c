"""Serious and critical faults of accessibility in pages, found by axe-core in headless Chromium, as the tests
in a browser look for them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import ViewportSize, sync_playwright

from benchmarks.result_cache import bench_dir
from tests.e2e.axe import OF_OTHERS, axe_source, violations
from tests.e2e.browser import ARGUMENTS, chromium, patient

SIZE: ViewportSize = {"width": 1280, "height": 900}


@dataclass(frozen=True, slots=True)
class AxeBrowser:
    """A Chromium and the script of axe-core."""

    executable: str
    script: str

    @classmethod
    def find(cls) -> Self:
        """Raises SystemExit when this machine has no Chromium, or no way to the npm registry."""
        try:
            return cls(chromium(), axe_source(bench_dir()))
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:
            raise SystemExit(f"{missing} Or leave it out: --no-axe.") from None

    def faults(self, url: str, pages: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
        """Return the faults of each page that has some. `pages` has the addresses by the session key of who
        asks for them."""
        found: dict[str, list[str]] = {}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=self.executable, args=ARGUMENTS)
            for session, addresses in pages.items():
                context = patient(browser.new_context(base_url=url, viewport=SIZE, locale="en-GB"))
                cookie = f"hmi_session_{urlsplit(url).port}"
                context.add_cookies([{"name": cookie, "value": session, "url": url}])
                tab = context.new_page()
                for address in addresses:
                    tab.goto(address)
                    assert tab.url == url + address, f"{address} leads to {tab.url}: nobody is signed in"
                    if faults := violations(tab, self.script, without=OF_OTHERS):
                        found[address] = faults
                context.close()
        return found
