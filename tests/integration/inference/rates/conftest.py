"""The scope of these tests."""

import pytest


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare and read rows of all tenants; the requests that they send see those of one."""
