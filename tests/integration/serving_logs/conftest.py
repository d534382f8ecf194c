"""One installation that logs as much as it can, as JSON."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from inference.logs import log_config
from tests.integration.serving_faults.installation import Installation
from tests.settings import home_base


@pytest.fixture(scope="package")
def site() -> Iterator[Installation]:
    """Web and worker run; made when the first test asks."""
    home = Path(tempfile.mkdtemp(prefix="hmi-logs-", dir=home_base()))  # short, as sockets need
    home.chmod(0o755)
    try:
        with (
            # The launcher, which is this process here, tells the web server's own how to log.
            override_settings(LOGGING=log_config("json", "debug")),
            Installation(home, HMI_LOG_FORMAT="json", HMI_LOG_LEVEL="debug") as installation,
        ):
            installation.heal()
            yield installation
    finally:
        shutil.rmtree(home, ignore_errors=True)
