"""The scope of these tests."""

import pytest


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """The demo is built by a command."""
