"""The API does what its description says, whatever an administrator sends to the platform."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.contract.named import named_for_the_tenant, named_on_the_platform
from tests.integration.contract.probing import Caller, probe_all
from tests.integration.contract.ready import for_good_requests

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_every_answer_to_an_administrator_is_a_described_one(
    door: Any, person: Caller, world: World, files: TinyFiles, tmp_path: Path
) -> None:
    in_the_tenant = named_for_the_tenant(world, for_good_requests(world, files, tmp_path, person.actor))
    known = named_on_the_platform(world, in_the_tenant)
    closed = probe_all(door, person, known, lambda path: path.startswith("/api/v1/platform/"))
    assert closed == {}
