"""Files in parts: any order, all or nothing, one quota."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection

from tenants.base.advisory_lock import advisory_lock
from tenants.datasets.models import File, MultipartUpload, Upload
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.storage import upload_store
from tenants.usage.models import Quota
from tests.integration.inference.openai.conftest import Caller
from tests.integration.tenants.content import stored
from tests.integration.versiontree.tree_factory import TenantFixture

PARTS = [b'{"text": "one", "label": "a"}\n', b'{"text": "two", "label": "b"}\n', b'{"text": "3"}\n']
WHOLE = b"".join(PARTS)


def announced(client: Caller, size: int = len(WHOLE), **more: Any) -> str:
    made = client.asks(
        "uploads", bytes=size, filename="rows.jsonl", purpose="batch", mime_type="text/jsonl", **more
    )
    assert made.status_code == 200, made.json()
    assert (made.json()["object"], made.json()["status"], made.json()["file"]) == ("upload", "pending", None)
    found: str = made.json()["id"]
    return found


def part(client: Caller, upload: str, data: bytes) -> Any:
    form = {"data": SimpleUploadedFile("part", data)}
    return client.post(f"/v1/uploads/{upload}/parts", form, format="multipart")


def test_parts_in_any_order_become_one_file(
    acme: TenantFixture,
    client: Caller,
    stranger: Caller,
    upload_root: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    before = storage_used(acme.tenant)
    upload = announced(client, expires_after={"anchor": "created_at", "seconds": 7200})
    ids = {number: part(client, upload, PARTS[number]).json()["id"] for number in (2, 0, 1)}
    assert storage_used(acme.tenant) == before + len(WHOLE)
    sent_again = part(client, upload, PARTS[1]).json()["id"]  # its answer was lost
    assert part(client, upload, WHOLE + b"x").json()["error"]["code"] == "body_too_large"
    for path, body in (("complete", {"part_ids": [ids[0]]}), ("cancel", {})):
        assert stranger.asks(f"uploads/{upload}/{path}", **body).status_code == 404
    assert part(stranger, upload, b"x").status_code == 404

    in_order = [ids[0], sent_again, ids[2]]
    md5 = hashlib.md5(WHOLE, usedforsecurity=False).hexdigest()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"part_ids": in_order[:2]}, "invalid_field"),
        ({"part_ids": [ids[0], ids[0], ids[2]]}, "invalid_field"),
        ({"part_ids": in_order, "md5": "0" * 32}, "checksum_mismatch"),
        ({"part_ids": in_order, "md5": "x"}, "invalid_field"),
    ]
    for wrong, code in cases:
        refused = client.asks(f"uploads/{upload}/complete", **wrong)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
    assert client.asks(f"uploads/{upload}/complete", part_ids=["part-" + "0" * 32]).status_code == 404

    with django_capture_on_commit_callbacks(execute=True):
        done = client.asks(f"uploads/{upload}/complete", part_ids=in_order, md5=md5)
    assert done.json()["status"] == "completed", done.json()
    file = done.json()["file"]
    assert (file["bytes"], file["filename"], file["purpose"]) == (len(WHOLE), "rows.jsonl", "batch")
    assert file["expires_at"] == pytest.approx(file["created_at"] + 7200, abs=1)
    content: Any = client.get(f"/v1/files/{file['id']}/content")
    assert b"".join(content.streaming_content) == WHOLE
    assert storage_used(acme.tenant) == before + len(WHOLE)
    assert len(stored(upload_root)) == 1
    for path, body in (("complete", {"part_ids": in_order}), ("cancel", {})):
        again = client.asks(f"uploads/{upload}/{path}", **body)
        assert (again.status_code, again.headers["x-should-retry"]) == (409, "false")


def test_parts_are_put_together_by_one_call_at_a_time_and_only_while_they_are_here(
    client: Caller, upload_root: Path
) -> None:
    upload = announced(client)
    ids = [part(client, upload, data).json()["id"] for data in PARTS]
    key, done, begun = MultipartUpload.unscoped.get().pk, Event(), Event()

    def elsewhere() -> None:
        try:
            with advisory_lock(f"upload {key}") as ours:
                assert ours
                begun.set()
                done.wait(30)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(elsewhere)
        assert begun.wait(30)
        refused = client.asks(f"uploads/{upload}/complete", part_ids=ids)
        done.set()
        other.result()
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert "Retry-After" in refused.headers

    upload_store().upload_path(UUID(ids[1].removeprefix("part-"))).unlink()
    refused = client.asks(f"uploads/{upload}/complete", part_ids=ids)
    assert (refused.status_code, refused.json()["error"]["param"]) == (409, "part_ids")
    assert not File.unscoped.exists()


def test_what_is_cancelled_or_too_large_leaves_nothing(
    acme: TenantFixture, client: Caller, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    upload = announced(client)
    part(client, upload, PARTS[0])
    with django_capture_on_commit_callbacks(execute=True):
        assert client.asks(f"uploads/{upload}/cancel").json()["status"] == "cancelled"
    assert not stored(upload_root)
    assert not Upload.unscoped.exists()
    assert part(client, upload, PARTS[0]).status_code == 409

    for size, status in ((2**50, 413), (0, 400)):
        refused = client.asks("uploads", bytes=size, filename="a", purpose="batch")
        assert (refused.status_code, refused.json()["error"]["param"]) == (status, "bytes")
    assert MultipartUpload.unscoped.count() == 1
    Quota.unscoped.update_or_create(tenant=acme.tenant, defaults={"max_storage_bytes": 10})
    refused = part(client, announced(client), PARTS[0])
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
