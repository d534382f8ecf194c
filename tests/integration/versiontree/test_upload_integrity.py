"""What is stored under a checksum has that checksum, whoever still writes to the upload it came from."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.batches.models import Batch, BatchState
from inference.batches.services.batches import batch_submit
from tenants.base.errors import HmiError
from tenants.datasets.models import File, Upload
from tenants.datasets.services.files import file_create
from tenants.datasets.services.uploads import upload_append, upload_create, upload_receive
from tenants.datasets.storage import StoredFile, digest_file, stored_path, upload_store
from tests.background import run_background, run_batch
from tests.integration.tenants.content import stored, stream
from tests.integration.tenants.tus import offset_of, send
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import signed_in
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.transfer.services.takeouts import takeout_path, takeout_request
from versiontree.tree.models import Version

pytestmark = [
    pytest.mark.usefixtures("in_platform_scope", "upload_root"),
    pytest.mark.django_db(transaction=True),
]

CONTENT = b'"one line of a batch"\n'
EVIL = b"x" * (len(CONTENT) - 1)


class Sending:
    """A body whose pieces are each made when it is their turn."""

    def __init__(self, *turns: Callable[[], bytes]) -> None:
        self._turns = iter(turns)

    def read(self, _: int, /) -> bytes:
        """The next piece."""
        return next(self._turns, bytes)()


@pytest.fixture
def spam(root: Version, acme: TenantFixture) -> Version:
    """A model that answers batches."""
    return tree_factory.ready_hplm(root, "spam", acme)


def an_upload(home: TenantFixture) -> Upload:
    return upload_create(tenant=home.tenant, filename="in.jsonl", size=len(CONTENT), actor=home.owner)


def test_open_writer_of_an_upload_cannot_change_the_stored_file(spam: Version, acme: TenantFixture) -> None:
    upload, batches, refused = an_upload(acme), list[Batch](), list[HmiError]()

    def store() -> bytes:
        found = Upload.unscoped.get(pk=upload.pk)
        batches.append(
            batch_submit(
                tenant=acme.tenant, model="spam", filename="in.jsonl", stream=found, actor=acme.owner
            )
        )
        return b"!"

    def another() -> bytes:
        with pytest.raises(HmiError) as one_byte_too_many:
            upload_append(
                upload=Upload.unscoped.get(pk=upload.pk),
                stream=Sending(lambda: CONTENT[1:], store),
                offset=1,
            )
        refused.append(one_byte_too_many.value)
        return EVIL

    with pytest.raises(HmiError) as overtaken:
        upload_append(upload=upload, stream=Sending(lambda: CONTENT[:1], another), offset=0)
    assert batches[0].input is not None
    assert stored_path(batches[0].input.sha256).read_bytes() == CONTENT
    assert {refused[0].code, overtaken.value.code} <= {"conflict", "not_found"}
    assert stored_path(batches[0].input.sha256).stat().st_mode & 0o777 == 0o400


def test_complete_upload_cannot_be_changed(acme: TenantFixture) -> None:
    upload = an_upload(acme)

    def another() -> bytes:
        found = Upload.unscoped.get(pk=upload.pk)
        assert upload_append(upload=found, stream=stream(CONTENT[1:]), offset=1) == len(CONTENT)
        return EVIL

    with pytest.raises(HmiError) as overtaken:
        upload_append(upload=upload, stream=Sending(lambda: CONTENT[:1], another), offset=0)
    assert overtaken.value.code == "conflict"
    client = signed_in(acme.owner)
    address = f"/api/v1/uploads/{upload.pk}?tenant=acme"
    for offset in (0, 1, len(CONTENT)):
        assert send(client, address, b"x", offset).json()["error"]["code"] == "conflict", offset
    assert send(client, address, b"", len(CONTENT)).status_code == 204, "its answer was lost"
    assert offset_of(client, address) == len(CONTENT)
    assert client.get(address).json()["sha256"] == hashlib.sha256(CONTENT).hexdigest()


def test_writer_stops_when_the_file_was_replaced(acme: TenantFixture) -> None:
    upload = an_upload(acme)
    path = upload_store().upload_path(upload.pk)
    elsewhere = path.with_name("elsewhere")

    def replaced() -> bytes:
        path.rename(elsewhere)
        path.write_bytes(CONTENT[:1])
        return EVIL

    with pytest.raises(HmiError) as refused:
        upload_append(upload=upload, stream=Sending(lambda: CONTENT[:1], replaced), offset=0)
    assert refused.value.code == "not_found"
    assert elsewhere.read_bytes() == path.read_bytes() == CONTENT[:1]


def test_stored_results_of_a_batch_are_a_copy(acme: TenantFixture, upload_root: Path) -> None:
    growing = upload_root / ".batches" / "one" / "results.jsonl"
    growing.parent.mkdir(parents=True)
    growing.write_bytes(CONTENT)
    with growing.open("r+b") as held:
        file = file_create(
            tenant=acme.tenant,
            purpose="batch_output",
            filename="results.jsonl",
            stream=StoredFile(growing, digest_file(growing)),
            actor=None,
        )
        held.write(EVIL)
    assert stored_path(file.sha256).read_bytes() == CONTENT
    assert growing.exists(), "its owner removes it"


def test_file_changed_after_its_digest_is_not_stored(acme: TenantFixture, upload_root: Path) -> None:
    changed = upload_root / "changed"
    changed.write_bytes(CONTENT)
    kept = StoredFile(changed, digest_file(changed))
    changed.write_bytes(CONTENT[::-1])
    with pytest.raises(HmiError) as refused:
        file_create(tenant=acme.tenant, purpose="batch", filename="in.jsonl", stream=kept, actor=None)
    assert (refused.value.code, "in.jsonl" in refused.value.message) == ("corrupt_artifact", True)
    assert stored(upload_root) == {"changed"}
    assert not File.unscoped.exists()


def test_damaged_stored_file_is_replaced_by_a_new_upload(acme: TenantFixture) -> None:
    def kept() -> Path:
        file = file_create(
            tenant=acme.tenant, purpose="batch", filename="a", stream=stream(CONTENT), actor=None
        )
        return stored_path(file.sha256)

    damage(kept())
    assert kept().read_bytes() == CONTENT


def damage(path: Path) -> None:
    """Other content of the same length, as a disk would."""
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[::-1])


def test_batch_of_a_damaged_file_fails(spam: Version, acme: TenantFixture) -> None:
    batch = batch_submit(
        tenant=acme.tenant, model="spam", filename="in.jsonl", stream=stream(CONTENT), actor=acme.owner
    )
    assert batch.input is not None
    damage(stored_path(batch.input.sha256))
    run_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.state, batch.error_code) == (BatchState.FAILED, "corrupt_artifact")
    assert "in.jsonl" in batch.error_message


def test_takeout_with_a_damaged_file_fails(
    acme: TenantFixture, settings: Any, tmp_path: Path, upload_root: Path
) -> None:
    settings.HMI_EXPORT_ROOT = tmp_path / "exports"
    put_stored(acme)
    file = file_create(
        tenant=acme.tenant, purpose="batch", filename="rows.jsonl", stream=stream(CONTENT), actor=None
    )
    whole = takeout_request(tenant=acme.tenant, actor=acme.owner)
    run_background(whole.pk)
    whole.refresh_from_db()
    with zipfile.ZipFile(takeout_path(whole)) as made:
        assert made.read(f"files/{file.pk}") == CONTENT
    damage(stored_path(file.sha256))
    broken = takeout_request(tenant=acme.tenant, actor=acme.owner)
    run_background(broken.pk)
    broken.refresh_from_db()
    assert broken.state == "failed"
    assert "rows.jsonl" in broken.error_message
    assert not takeout_path(broken).exists()


def test_stalled_worker_does_not_write_to_the_file_of_another(
    acme: TenantFixture, settings: Any, tmp_path: Path
) -> None:
    settings.HMI_EXPORT_ROOT = tmp_path / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()
    put_stored(acme)
    takeout = takeout_request(tenant=acme.tenant, actor=acme.owner)
    path = takeout_path(takeout)
    with path.with_name(f"{path.name}.part").open("wb", buffering=0) as held:
        run_background(takeout.pk)
        made = path.read_bytes()
        held.write(b"what it had left to write")
    assert path.read_bytes() == made


def put_stored(home: TenantFixture) -> None:
    """Uploads with the checksums that `create_tenant` gives them."""
    for name, sha256 in _files_of(home):
        path = stored_path(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def _files_of(home: TenantFixture) -> list[tuple[str, str]]:
    texts = [(home.corpus.name, home.corpus.sha256)]
    return texts + [
        (f"{home.dataset.name}{split.split}", split.sha256) for split in home.dataset.splits.all()
    ]


def test_dataset_of_a_damaged_file_is_refused(acme: TenantFixture) -> None:
    rows = json.dumps({"text": "good", "label": "good"}).encode()
    client = signed_in(acme.owner)
    upload = upload_receive(
        tenant=acme.tenant, filename="rows.jsonl", size=len(rows), stream=stream(rows), actor=acme.owner
    )
    damage(upload_store().upload_path(upload.pk))
    asked = {"kind": "corpus", "files": {"file": str(upload.pk)}, "name": "news"}
    told = client.post("/api/v1/checks?tenant=acme", asked, format="json").json()
    assert told["error"]["code"] == "corrupt_artifact", told
