"""The API does what its description says, whatever a program with a key sends."""

from typing import Any

import pytest

from tests.e2e.world import World
from tests.integration.contract.named import named_for_the_tenant
from tests.integration.contract.probing import Caller, Findings, operations, probe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
OF_PEOPLE = ("/api/v1/tenants/", "/api/v1/platform/")


def test_every_answer_to_a_program_is_a_described_one(door: Any, program: Caller, world: World) -> None:
    known, findings, asked = named_for_the_tenant(world), Findings(), 0
    for operation in operations(door, lambda path: not path.startswith(OF_PEOPLE)):
        probe(operation, program, known, findings)
        asked += 1
    assert not findings.faults, "\n\n".join(findings.faults)
    assert len(findings.closed) < asked / 2, findings.closed
