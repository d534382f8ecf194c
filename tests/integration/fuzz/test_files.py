"""Whatever files come in, they are read, or refused with a reason."""

import pytest

from tests.integration.fuzz.cases import TIMES, Entrance, check_all_tried
from tests.integration.fuzz.files import entrances

pytestmark = [pytest.mark.timeout(1800 * max(1, TIMES))]
NAMES = [
    "corpora",
    "datasets",
    "conversations",
    "batches",
    "archives",
    "adapters",
    "configurations",
    "tensors",
    "JSON of archives",
]


@pytest.fixture(scope="module")
def ways_in(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entrance]:
    return entrances(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_read_or_refused(name: str, ways_in: dict[str, Entrance]) -> None:
    check_all_tried(ways_in[name])
