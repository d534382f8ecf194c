"""The API does what its description says, whatever a client of OpenAI's or KServe's API sends."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.contract.named import named_for_the_tenant
from tests.integration.contract.probing import Caller, Findings, operations, probe
from tests.integration.contract.ready import for_good_requests

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_every_answer_to_another_client_is_a_described_one(
    door: Any, program: Caller, world: World, files: TinyFiles, tmp_path: Path
) -> None:
    known = named_for_the_tenant(world, for_good_requests(world, files, tmp_path, program.actor))
    findings = Findings()
    for operation in operations(door, lambda path: not path.startswith("/api/v1/")):
        probe(operation, program, known, findings)
    assert not findings.faults, "\n\n".join(findings.faults)
    assert findings.closed == {}
