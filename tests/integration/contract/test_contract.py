"""The API does what its description says, whatever anybody sends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.contract.named import named_for_the_tenant, named_on_the_platform
from tests.integration.contract.probing import Caller, operations, probe_all
from tests.integration.contract.ready import for_good_requests

pytestmark = [pytest.mark.timeout(1800)]
OF_PEOPLE = ("/api/v1/tenants/", "/api/v1/platform/")
FOR_PEOPLE = "API keys cannot do this. Sign in instead."
STAY_CLOSED = {
    FOR_PEOPLE: {
        "GET /api/v1/api-keys",
        "POST /api/v1/api-keys",
        "GET /api/v1/api-keys/{prefix}",
        "DELETE /api/v1/api-keys/{prefix}",
        "POST /api/v1/api-keys/{prefix}/rotate",
        "GET /api/v1/audit",
        "GET /api/v1/invitations",
        "POST /api/v1/invitations",
        "GET /api/v1/invitations/{invitation_id}",
        "DELETE /api/v1/invitations/{invitation_id}",
        "POST /api/v1/invitations/{invitation_id}/resend",
        "GET /api/v1/members",
        "GET /api/v1/members/{member_id}",
        "PATCH /api/v1/members/{member_id}",
        "DELETE /api/v1/members/{member_id}",
        "GET /api/v1/takeouts",
        "POST /api/v1/takeouts",
        "GET /api/v1/takeouts/{takeout_id}",
        "GET /api/v1/takeouts/{takeout_id}/file",
    },
    "There is no pending request with this id.": {"DELETE /api/v1/infer/{request_id}"},
}
"""What good requests are refused with, and the operations that refuse them: no key may, and nobody waits for
an answer while one request is sent after the other."""


def test_every_answer_to_a_program_is_a_described_one(
    door: Any, program: Caller, world: World, files: TinyFiles, tmp_path: Path
) -> None:
    """Also to a client of OpenAI or of the Open Inference Protocol."""
    known = named_for_the_tenant(world, for_good_requests(world, files, tmp_path, program.actor))
    closed = probe_all(door, program, known, lambda path: not path.startswith(OF_PEOPLE))
    assert closed == {label: why for why, labels in STAY_CLOSED.items() for label in labels}


def test_every_answer_to_a_person_is_a_described_one(
    door: Any, person: Caller, world: World, files: TinyFiles, tmp_path: Path
) -> None:
    """Also to an administrator. What a key may use, too, was probed with one."""
    tried = {one.path for one in operations(door, lambda path: not path.startswith(OF_PEOPLE))}
    tried -= {label.split(" ")[1] for label in STAY_CLOSED[FOR_PEOPLE]}
    in_the_tenant = named_for_the_tenant(world, for_good_requests(world, files, tmp_path, person.actor))
    on_the_platform = named_on_the_platform(world, in_the_tenant)
    for known, addresses in zip((in_the_tenant, on_the_platform), OF_PEOPLE, strict=True):
        assert probe_all(door, person, known, below(addresses), tried) == {}


def below(addresses: str) -> Callable[[str], bool]:
    """Whether a path begins so."""
    return lambda path: path.startswith(addresses)
