"""The scope of these tests."""

import pytest


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """The benchmark builds what it measures, as a command does."""
