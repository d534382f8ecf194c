"""What the server speaks of the tus protocol, and what it refuses."""

from typing import Any

import pytest

from tests.integration.tenants.tus import TUS, UPLOADS, begun
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def test_the_server_says_what_of_the_protocol_it_speaks(world: World) -> None:
    answer = world.client(world.developer).options(UPLOADS)
    assert (answer.status_code, answer["Tus-Version"]) == (204, "1.0.0")
    assert answer["Tus-Extension"] == "creation,checksum,expiration,termination"
    assert answer["Tus-Checksum-Algorithm"] == "sha256,sha1"


def test_a_mark_with_a_nul_is_kept_without_it(world: World) -> None:
    client = world.client(world.developer)
    assert client.get(begun(client, 5, fingerprint="a\0b")).json()["fingerprint"] == "ab"


def test_a_piece_of_another_type_is_refused(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 5)
    answer: Any = client.generic(
        "PATCH", address, "abcde", content_type="text/plain", headers={**TUS, "Upload-Offset": "0"}
    )
    assert answer.status_code == 415


def test_a_piece_may_come_as_any_bytes(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 5)
    answer: Any = client.generic(
        "PATCH",
        address,
        "abcde",
        content_type="application/octet-stream",
        headers={**TUS, "Upload-Offset": "0"},
    )
    assert (answer.status_code, answer["Upload-Offset"]) == (204, "5")
