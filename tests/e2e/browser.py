"""A headless Chromium for tests: where it is, and how it is started."""

import os
import shutil
from pathlib import Path

from tests.lacking import lacking

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


def chromium() -> str:
    """The path of Chromium. Without one the tests are skipped and say so; in CI they fail."""
    wanted = os.environ.get("HMI_CHROMIUM", DEFAULT)
    found = wanted if Path(wanted).is_file() else shutil.which(wanted)
    return found or lacking(
        f"There is no Chromium at {wanted}. Install it (apt-get install chromium) or set HMI_CHROMIUM."
    )
