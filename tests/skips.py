"""Skipping a test because this machine lacks something that it needs."""

import os
from typing import NoReturn

import pytest


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip the test and say what it needs. In CI, where nobody reads that, fail it."""
    if os.environ.get("CI", "").strip().lower() not in {"", "0", "false", "no", "off"}:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
