"""People who sign in by the form, as a browser does."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests see who signed in, whichever tenants they belong to."""


@pytest.fixture(autouse=True)
def fresh_limits() -> Iterator[None]:
    """How often somebody tried is remembered by the process."""
    cache.clear()
    yield
    cache.clear()
