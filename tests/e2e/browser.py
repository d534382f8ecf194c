"""A headless Chromium for tests: where it is, and how it is started."""

import os
import shutil
from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.skips import skip_unless_ci

DEFAULT = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000
"""How long a tab waits for what it is told to see or to press: what a busy machine takes, since nothing here
tests how fast pages are."""


def patient(context: BrowserContext) -> BrowserContext:
    """Its tabs wait, and what they are expected to show is waited for."""
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    return context


def chromium() -> str:
    """The path of Chromium. Without one the tests are skipped and say so; in CI they fail."""
    wanted = os.environ.get("HMI_CHROMIUM", DEFAULT)
    found = wanted if Path(wanted).is_file() else shutil.which(wanted)
    return found or skip_unless_ci(
        f"There is no Chromium at {wanted}. Install it (apt-get install chromium) or set HMI_CHROMIUM."
    )
