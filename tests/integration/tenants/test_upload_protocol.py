"""What the server speaks of the tus protocol, and what it refuses."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.integration.tenants.tus import PIECE, TUS, UPLOADS, b64, begun, offset_of, send
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")


@pytest.fixture
def developer(world: World) -> APIClient:
    """A client that may upload."""
    return world.client(world.developer)


def test_options_name_the_version_and_extensions(developer: APIClient) -> None:
    answer = developer.options(UPLOADS)
    assert (answer.status_code, answer["Tus-Version"]) == (204, "1.0.0")
    assert answer["Tus-Extension"] == "creation,checksum,expiration,termination"
    assert answer["Tus-Checksum-Algorithm"] == "sha256,sha1"


def test_nul_is_removed_from_the_fingerprint(developer: APIClient) -> None:
    assert developer.get(begun(developer, 5, fingerprint="a\0b")).json()["fingerprint"] == "ab"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [("text/plain", 415), ("application/octet-stream", 204), (f"{PIECE}; charset=utf-8", 204)],
)
def test_piece_of_text_is_refused(developer: APIClient, content_type: str, status: int) -> None:
    headers = {**TUS, "Upload-Offset": "0"}
    answer = developer.generic(
        "PATCH", begun(developer, 5), "abcde", content_type=content_type, headers=headers
    )
    assert answer.status_code == status


def test_head_returns_the_metadata_as_sent(developer: APIClient) -> None:
    metadata = f"filename {b64('größe.txt')},is_confidential,digest {b64(bytes(range(256)))}"
    made = developer.post(UPLOADS, headers={**TUS, "Upload-Length": "5", "Upload-Metadata": metadata})
    assert made.status_code == 201, made.content
    head = developer.head(made["Location"], headers=TUS)
    assert (head["Upload-Metadata"], head["Cache-Control"]) == (metadata, "no-store")
    assert developer.get(made["Location"]).json()["filename"] == "größe.txt"
    bare = developer.post(UPLOADS, headers={**TUS, "Upload-Length": "5"})
    assert "Upload-Metadata" not in developer.head(bare["Location"], headers=TUS)


def test_filename_is_read_from_the_metadata_of_uppy(developer: APIClient) -> None:
    metadata = f"relativePath {b64('null')},name {b64('a.csv')},type {b64('text/csv')}"
    made = developer.post(UPLOADS, headers={**TUS, "Upload-Length": "5", "Upload-Metadata": metadata})
    assert made.status_code == 201, made.content
    assert developer.get(made["Location"]).json()["filename"] == "a.csv"


def test_method_is_overridden_by_the_header(developer: APIClient) -> None:
    address = begun(developer, 5)

    def post(method: str, body: str = "", **headers: str) -> Any:
        told = {**TUS, "X-HTTP-Method-Override": method, **headers}
        return developer.generic("POST", address, body, content_type=PIECE, headers=told)

    assert post("PATCH", "abc", **{"Upload-Offset": "0"}).status_code == 204
    assert post("HEAD")["Upload-Offset"] == "3"
    assert offset_of(developer, address) == 3
    assert post("DELETE").status_code == 204
    assert developer.head(address, headers=TUS).status_code == 404
    assert post("BREW").status_code == 405


def test_body_of_the_creation_is_not_stored(
    developer: APIClient,
) -> None:
    headers = {**TUS, "Upload-Length": "5"}
    made = developer.generic("POST", UPLOADS, "abcde", content_type=PIECE, headers=headers)
    assert (made.status_code, made["Upload-Offset"]) == (201, "0")
    sent = send(developer, made["Location"], b"abcde", int(made["Upload-Offset"]))
    assert (sent.status_code, sent["Upload-Offset"]) == (204, "5")


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({}, "Upload-Length"),
        ({"Upload-Length": "-1"}, "Upload-Length"),
        ({"Upload-Length": "1.5"}, "Upload-Length"),
        ({"Upload-Defer-Length": "1"}, "Upload-Defer-Length"),
        ({"Upload-Length": "5", "Upload-Concat": "partial"}, "Upload-Concat"),
        ({"Upload-Length": "5", "Upload-Metadata": "filename"}, None),
        ({"Upload-Length": "5", "Upload-Metadata": "a YQ==,a YQ=="}, "Upload-Metadata"),
        ({"Upload-Length": "5", "Upload-Metadata": "a b c"}, "Upload-Metadata"),
        ({"Upload-Length": "5", "Upload-Metadata": "filename YQ"}, "Upload-Metadata"),
        ({"Upload-Length": "5", "Upload-Metadata": "filename \xe9"}, "Upload-Metadata"),
        ({"Upload-Length": "5", "Upload-Metadata": "filename /w=="}, "Upload-Metadata"),
    ],
)
def test_creation_with_wrong_headers_is_400(
    developer: APIClient, headers: dict[str, str], param: str | None
) -> None:
    answer = developer.post(UPLOADS, headers={**TUS, **headers})
    if param is None:
        assert answer.status_code == 201
    else:
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("length", [str(10**13), "9" * 500])
def test_creation_above_the_size_limit_is_413(developer: APIClient, length: str) -> None:
    answer = developer.post(UPLOADS, headers={**TUS, "Upload-Length": length})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large")


def test_offset_of_thirty_digits_is_a_conflict(developer: APIClient) -> None:
    answer = send(developer, begun(developer, 5), b"abcde", headers={"Upload-Offset": "9" * 30})
    assert answer.status_code == 409


def test_unsupported_checksum_is_400_and_stores_nothing(developer: APIClient) -> None:
    address = begun(developer, 5)
    for checksum in ("md5 AAAA", "sha1 not-base64", "sha1"):
        answer = send(developer, address, b"abcde", headers={"Upload-Checksum": checksum})
        assert answer.status_code in ((400,) if checksum != "sha1" else (460,)), checksum
    assert offset_of(developer, address) == 0


def test_other_version_of_the_protocol_is_412(developer: APIClient) -> None:
    address = begun(developer, 5)
    for method in ("HEAD", "DELETE"):
        answer = developer.generic(method, address, headers={"Tus-Resumable": "0.2.2"})
        assert (answer.status_code, answer["Tus-Version"]) == (412, "1.0.0")
    assert send(developer, address, b"abcde", headers={"Tus-Resumable": "2.0.0"}).status_code == 412
    assert offset_of(developer, address) == 0
