"""The libraries whose adapters are imported and exported."""

from collections.abc import Iterator

import pytest

from benchmarks.serving.peers.errors import PeerUnavailable
from tests.integration.versiontree.transfer.adapters.libraries import Libraries, started
from tests.skips import skip_unless_ci


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libraries]:
    """Both, by their names."""
    try:
        with started(tmp_path_factory.mktemp("logs")) as found:
            yield found
    except PeerUnavailable as error:
        skip_unless_ci(str(error))
