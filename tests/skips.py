"""What a machine may lack that some tests need."""

import os
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """The test is skipped and says what it wanted; in CI, where nobody reads that, it fails."""
    if os.environ.get("CI", "").strip().lower() not in {"", "0", "false", "no", "off"}:
        pytest.fail(what, pytrace=False)
    pytest.skip(what)
