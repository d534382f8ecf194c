"""What is read of a version that an archive brought."""

from typing import Any

import pytest

from versiontree.tree.models import Version
from versiontree.tree.selectors.evaluations import own_test_sha256


@pytest.mark.parametrize("config", [{}, {"dataset": {}}, {"dataset": {"splits": "a"}}, {"dataset": ["a"]}])
def test_of_a_version_that_tells_of_no_splits_there_are_no_test_rows(config: dict[str, Any]) -> None:
    assert own_test_sha256(Version(config=config)) == ""


def test_the_test_rows_are_those_that_the_version_names() -> None:
    assert own_test_sha256(Version(config={"dataset": {"splits": {"test": "a" * 64}}})) == "a" * 64
