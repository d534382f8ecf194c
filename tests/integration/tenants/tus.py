"""Speaking the tus protocol to the API as a test client does."""

import hashlib
from base64 import b64encode
from typing import Any

UPLOADS = "/api/v1/tenants/acme/uploads"
CHECKS = "/api/v1/tenants/acme/checks"
PIECE = "application/offset+octet-stream"
TUS = {"Tus-Resumable": "1.0.0"}
Headers = dict[str, str] | None


def b64(value: str | bytes) -> str:
    """As the protocol writes values."""
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


def begin(client: Any, size: int, name: str = "news.txt", address: str = UPLOADS, **metadata: str) -> Any:
    """Ask for an upload of so many bytes."""
    named = {"filename": name, **metadata}
    pairs = ",".join(f"{key} {b64(value)}" for key, value in named.items())
    return client.post(address, headers={**TUS, "Upload-Length": str(size), "Upload-Metadata": pairs})


def begun(client: Any, size: int, name: str = "news.txt", address: str = UPLOADS, **metadata: str) -> str:
    """The path of a new upload."""
    answer = begin(client, size, name, address, **metadata)
    assert answer.status_code == 201, answer.content
    return str(answer["Location"].removeprefix("http://testserver"))


def send(client: Any, address: str, piece: bytes, offset: int = 0, headers: Headers = None) -> Any:
    """Send the next piece."""
    return client.generic(
        "PATCH",
        address,
        piece,
        content_type=PIECE,
        headers={**TUS, "Upload-Offset": str(offset), **(headers or {})},
    )


def sent(client: Any, content: bytes, name: str = "news.txt", address: str = UPLOADS) -> str:
    """The id of an upload that is complete."""
    address = begun(client, len(content), name, address=address)
    assert send(client, address, content).status_code == 204
    return address.rpartition("/")[2]


def ask(client: Any, **fields: Any) -> Any:
    """Ask for a check of uploads."""
    return client.post(CHECKS, fields, format="json")


def offset_of(client: Any, address: str) -> int:
    """How much the server has."""
    return int(client.head(address, headers=TUS)["Upload-Offset"])


def digest_header(content: bytes) -> dict[str, str]:
    """The promise of the whole file's sha256."""
    return {"Repr-Digest": f"sha-256=:{b64(hashlib.sha256(content).digest())}:"}
