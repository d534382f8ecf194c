"""One installation for all tests here; each test finds it whole."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.serving_faults.installation import Installation
from tests.settings import home_base


@pytest.fixture(scope="package")
def installed() -> Iterator[Installation]:
    """Made when the first test asks."""
    home = Path(tempfile.mkdtemp(prefix="hmi-faults-", dir=home_base()))  # short, as sockets need
    home.chmod(0o755)
    try:
        with Installation(home) as installation:
            yield installation
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def site(installed: Installation) -> Installation:
    """Everything runs, whatever the test before has done to it."""
    installed.heal()
    return installed
