"""The API does what its description says, whatever a signed-in owner of a tenant sends."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.contract.named import named_for_the_tenant
from tests.integration.contract.probing import Caller, probe_all
from tests.integration.contract.ready import for_good_requests

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_every_answer_to_a_person_is_a_described_one(
    door: Any, person: Caller, world: World, files: TinyFiles, tmp_path: Path
) -> None:
    known = named_for_the_tenant(world, for_good_requests(world, files, tmp_path, person.actor))
    closed = probe_all(door, person, known, lambda path: path.startswith("/api/v1/tenants/"))
    assert closed == {}
