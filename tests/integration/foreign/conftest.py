"""The sites of archives, for adapters that come from elsewhere; and the libraries that they come from."""

from collections.abc import Iterator

import pytest

from benchmarks.serving.peers.errors import PeerUnavailable
from tests.integration.archives.conftest import models, site, tried_here
from tests.integration.foreign.libraries import Libraries, started
from tests.skips import skip_unless_ci

__all__ = ["libraries", "models", "site", "tried_here"]


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests look into the tables of a site and all of its tenants."""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libraries]:
    """Both, by their names."""
    try:
        with started(tmp_path_factory.mktemp("logs")) as found:
            yield found
    except PeerUnavailable as error:
        skip_unless_ci(str(error))
