"""The scope of these tests."""

import pytest


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare rows of all tenants for the requests that they send."""
