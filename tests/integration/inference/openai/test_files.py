"""Files: kept as they were sent, for all of the tenant and nobody else."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from tenants.datasets.models import File
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.services.files import files_expire
from tenants.usage.models import Quota
from tests.integration.inference.openai.conftest import Caller
from tests.integration.tenants.content import audit_of, stored
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version

ROWS = '{"text": "a", "label": "b"}\n'


def test_a_file_is_sent_seen_fetched_and_deleted_by_its_tenant_alone(
    acme: TenantFixture,
    client: Caller,
    stranger: Caller,
    upload_root: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    before = storage_used(acme.tenant)
    sent = client.sends(ROWS)
    assert sent.status_code == 200, sent.data
    file = sent.json()
    assert (file["object"], file["purpose"], file["status"]) == ("file", "fine-tune", "processed")
    assert (file["bytes"], file["filename"], file["expires_at"]) == (len(ROWS), "rows.jsonl", None)
    address = f"/v1/files/{file['id']}"
    assert client.get(address).json() == file
    content: Any = client.get(f"{address}/content")
    assert b"".join(content.streaming_content) == ROWS.encode()
    assert storage_used(acme.tenant) == before + len(ROWS)

    for refused in (stranger.get(address), stranger.get(f"{address}/content"), stranger.delete(address)):
        assert refused.status_code == 404
    assert stranger.get("/v1/files").json()["data"] == []

    with django_capture_on_commit_callbacks(execute=True):
        assert client.delete(address).json() == {"id": file["id"], "object": "file", "deleted": True}
    assert client.get(address).status_code == 404
    assert not stored(upload_root)
    assert [event.verb for event in audit_of(acme.tenant)[:2]] == ["file.delete", "file.create"]


def test_what_several_have_sent_stays_until_the_last_deletes_it(
    client: Caller, stranger: Caller, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    mine, theirs = client.sends(ROWS).json()["id"], stranger.sends(ROWS).json()["id"]
    with django_capture_on_commit_callbacks(execute=True):
        client.delete(f"/v1/files/{mine}")
    assert len(stored(upload_root)) == 1
    with django_capture_on_commit_callbacks(execute=True):
        stranger.delete(f"/v1/files/{theirs}")
    assert not stored(upload_root)


def test_files_are_listed_in_parts_in_either_order(client: Caller) -> None:
    ids = [client.sends(ROWS * count, purpose="batch").json()["id"] for count in (1, 2, 3)]
    other = client.sends(ROWS).json()["id"]

    def part(**query: Any) -> tuple[list[str], bool]:
        value = client.get("/v1/files", query).json()
        assert value["object"] == "list"
        found = [file["id"] for file in value["data"]]
        assert (value["first_id"], value["last_id"]) == ((found[0], found[-1]) if found else (None, None))
        return found, value["has_more"]

    assert part() == ([other, *reversed(ids)], False)
    assert part(purpose="batch", order="asc") == (ids, False)
    assert part(purpose="batch", limit=2) == ([ids[2], ids[1]], True)
    assert part(purpose="batch", limit=2, after=ids[1]) == ([ids[0]], False)
    assert part(after=ids[0]) == ([], False)


def test_a_file_goes_when_its_time_is_over(client: Caller, acme: TenantFixture, upload_root: Path) -> None:
    life: dict[str, Any] = {"expires_after[anchor]": "created_at", "expires_after[seconds]": 3600}
    file = client.sends(ROWS, **life).json()
    assert file["expires_at"] == pytest.approx(file["created_at"] + 3600, abs=1)
    File.unscoped.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.get(f"/v1/files/{file['id']}").status_code == 404
    assert files_expire() == 1
    assert not File.unscoped.exists()


def test_a_file_in_use_stays_until_what_uses_it_has_ended(
    client: Caller, root: Version, batch_line: str, upload_root: Path, redis_url: str
) -> None:
    life: dict[str, Any] = {"expires_after[anchor]": "created_at", "expires_after[seconds]": 3600}
    asked, tuned = (
        client.sends(content, purpose=purpose, **life).json()["id"]
        for content, purpose in ((batch_line, "batch"), (ROWS, "fine-tune"))
    )
    answered = {"input_file_id": asked, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    batches = [client.asks("batches", **answered).json()["id"] for _ in range(2)]
    job = client.asks("fine_tuning/jobs", model="bert", training_file=tuned).json()["id"]
    for file, kind, users in ((asked, "batch", batches), (tuned, "fine_tuning.job", [job])):
        refused = client.delete(f"/v1/files/{file}")
        told = refused.json()["error"]
        assert (refused.status_code, told["code"], told["details"]["count"]) == (
            409,
            "has_dependents",
            len(users),
        )
        dependents = {(one["type"], one["id"]) for one in told["details"]["dependents"]}
        assert dependents == {(kind, user) for user in users}
    File.unscoped.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert files_expire() == 0
    for path in (*(f"batches/{batch}/cancel" for batch in batches), f"fine_tuning/jobs/{job}/cancel"):
        assert client.asks(path).status_code == 200
    assert files_expire() == 2


@pytest.mark.parametrize(
    ("sent", "status", "code", "param"),
    [
        ({"content": ""}, 400, "empty_file", "file"),
        ({"content": ROWS, "purpose": "assistants"}, 400, "invalid_field", "purpose"),
        ({"content": ROWS, "purpose": "batch_output"}, 400, "invalid_field", "purpose"),
        (
            {"content": ROWS, "expires_after[anchor]": "created_at"},
            400,
            "missing_field",
            "expires_after[seconds]",
        ),
        ({"content": ROWS, "expires_after[seconds]": 60}, 400, "invalid_field", "expires_after[seconds]"),
        ({"content": ROWS * 100}, 429, "insufficient_quota", None),
    ],
)
def test_what_cannot_be_kept_leaves_nothing(
    client: Caller,
    acme: TenantFixture,
    upload_root: Path,
    sent: dict[str, Any],
    status: int,
    code: str,
    param: str | None,
) -> None:
    Quota.unscoped.update_or_create(tenant=acme.tenant, defaults={"max_storage_bytes": 302_000})
    refused = client.sends(sent.pop("content"), **sent)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (status, code, param)
    assert error["type"] == ("insufficient_quota" if status == 429 else "invalid_request_error")
    assert not File.unscoped.exists()
    assert not stored(upload_root)


def test_a_file_without_its_bytes_or_with_a_strange_id_is_refused(client: Caller) -> None:
    for given in ("file-1", "batch-" + "0" * 32, "x" * 300, "file-" + "g" * 32):
        refused = client.get(f"/v1/files/{given}")
        assert (refused.status_code, refused.json()["error"]["param"]) == (404, "file_id")
    assert (
        client.post("/v1/files", {"purpose": "batch"}, format="multipart").json()["error"]["param"] == "file"
    )
    for query in ({"limit": 0}, {"limit": "x"}, {"order": "up"}, {"purpose": "x"}):
        assert client.get("/v1/files", query).status_code == 400, query
    assert client.get("/v1/files", {"after": "file-" + "0" * 32}).status_code == 404


def test_files_and_fine_tunings_under_way_are_bounded(
    client: Caller, root: Version, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.datasets.services.files.MAX_FILES", 1)
    settings.HMI_MAX_CHECKS = 1
    file = client.sends(ROWS).json()["id"]
    tuned = {"model": "bert", "training_file": file}
    assert client.asks("fine_tuning/jobs", **tuned).status_code == 200
    for refused, passes in [
        (client.sends(ROWS), False),
        (client.asks("fine_tuning/jobs", **tuned), True),
    ]:
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
        assert ("Retry-After" in refused.headers) is passes
        assert (refused.headers.get("x-should-retry") == "false") is not passes
