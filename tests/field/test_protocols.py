"""What stock clients of others' protocols send, and archives as Windows and macOS make them."""

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from pytest_django.live_server_helper import LiveServer

from hmi_client import Client
from inference.open_inference.parsers import Body
from inference.open_inference.requests import OipRequest, parse_request
from inference.open_inference.responses import oip_response
from inference.open_inference.signatures import signature_of
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Upload
from tests.integration.hmi_client.conftest import Hmi, config, hmi, script, server
from tests.integration.hmi_client.scripted import Reply, Script
from tests.integration.hmi_client.test_command_options import VERSION
from tests.integration.tenants.tus import b64
from tests.integration.world import make_world
from tests.unit.versiontree.forging import Members, symlink, zip_of, zip_with
from tests.unit.versiontree.test_archive_mutations import MEMBERS
from versiontree.transfer.archive.adapter import adapter_open
from versiontree.transfer.archive.reader import archive_open

__all__ = ["config", "hmi", "script", "server"]

Pack = Callable[[Members], bytes]
MAX_BYTES = 10**7
ADAPTER: Members = {
    "adapter_config.json": b"{}",
    "adapter_model.safetensors": b"weights",
    "README.md": b"A card.",
}
MAC = {"__MACOSX/My model (1)/._manifest.json": b"\0\5\x16\7", ".DS_Store": b"\0\0\0\1Bud1"}
WINDOWS = {"Thumbs.db": b"\xd0\xcf", "desktop.ini": b"[.ShellClassInfo]", "Neu à é.txt": b""}
NOT_READ = {
    "adapter_model.bin": b"\x80\x04.",
    "../evil": b"x",
    "/etc/passwd": b"x",
    "C:\\evil": b"x",
    "a" * 600: b"x",
    "a  b\n": b"x",
}


def below(folder: str, members: Members, separator: str = "/") -> Members:
    """All files in a folder."""
    return {f"{folder}/{name}".replace("/", separator): content for name, content in members.items()}


def streamed(members: Members) -> bytes:
    """Folders are entries of their own, and the size of a file follows its content."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("model")
        for name, content in members.items():
            with archive.open(f"model/{name}", "w", force_zip64=True) as entry:
                entry.write(content)
    return out.getvalue()


def with_links(members: Members) -> bytes:
    """Links, and an entry in an unsupported compression, beside the files."""
    packed = zipfile.ZipInfo("notes.txt")
    packed.compress_type = zipfile.ZIP_LZMA
    return zip_with(members, symlink("latest", "/etc"), symlink("b/c", "../.."), (packed, b"text" * 99))


ARCHIVES: dict[str, Pack] = {
    "as exported": zip_of,
    "Finder": lambda members: zip_of(below("My model (1)", members) | MAC),
    "Explorer": lambda members: zip_of(below("Möbel – Kopie", {**members, **WINDOWS})),
    "backslashes": lambda members: zip_of(below("model", members, "\\")),
    "a dot before": lambda members: zip_of(below(".", members)),
    "names that are not read": lambda members: zip_of({**members, **NOT_READ}),
    "folders, data descriptors, zip64": streamed,
    "links": with_links,
}
every_archive = pytest.mark.parametrize("pack", ARCHIVES.values(), ids=ARCHIVES)


def unpacked(folder: Path) -> Members:
    """The files below a folder."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@every_archive
def test_a_version_is_unpacked_from_a_zip_file_of_any_tool(pack: Pack, tmp_path: Path) -> None:
    with archive_open(io.BytesIO(pack(MEMBERS)), max_bytes=MAX_BYTES) as opened:
        opened.unpack(tmp_path)
    assert unpacked(tmp_path) == {name: MEMBERS[name] for name in MEMBERS if name != "manifest.json"}


@every_archive
def test_an_adapter_is_unpacked_from_a_zip_file_of_any_tool(pack: Pack, tmp_path: Path) -> None:
    with adapter_open(io.BytesIO(pack(ADAPTER)), max_bytes=MAX_BYTES) as opened:
        opened.unpack(tmp_path / "adapter")
    assert unpacked(tmp_path / "adapter") == {name: ADAPTER[name] for name in ADAPTER if name != "README.md"}


def test_an_adapter_is_the_one_in_the_folder_above_its_checkpoints(tmp_path: Path) -> None:
    members = {**ADAPTER, **below("checkpoint-500", {**ADAPTER, "optimizer.pt": b"x"})}
    with adapter_open(io.BytesIO(zip_of(members)), max_bytes=MAX_BYTES) as opened:
        opened.unpack(tmp_path / "adapter")
    siblings = zip_of(below("a", ADAPTER) | below("b", ADAPTER))
    with (
        pytest.raises(HmiError, match="exactly one"),
        adapter_open(io.BytesIO(siblings), max_bytes=MAX_BYTES),
    ):
        pass


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (lambda: zip_with({}, symlink("adapter_config.json", "/etc/passwd")), "not a plain file"),
        (lambda: zip_of({**ADAPTER, "ADAPTER_CONFIG.json": b"{}"}), "occurs twice"),
        (lambda: zip_of({**ADAPTER, "adapter_config.json/evil": b"x"}), "a file and a folder"),
    ],
)
def test_a_file_that_is_read_is_plain_and_unique(members: Callable[[], bytes], words: str) -> None:
    with pytest.raises(HmiError, match=words), adapter_open(io.BytesIO(members()), max_bytes=MAX_BYTES):
        pass


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("open_archive", [archive_open, adapter_open])
def test_a_tar_file_is_named_and_the_way_out_said(mode: Any, open_archive: Any) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        archive.addfile(tarfile.TarInfo("adapter_config.json"))
    with pytest.raises(HmiError) as refused, open_archive(out, max_bytes=MAX_BYTES):
        pass
    assert refused.value.code == ErrorCode.INVALID_ARCHIVE
    assert "send the folder as a zip file" in refused.value.message


# The identity of uploads


@pytest.fixture
def client(
    transactional_db: None, live_server: LiveServer, redis_client: redis.Redis, upload_root: Path,
    in_platform_scope: None,
) -> Iterator[Client]:  # fmt: skip
    """The Python client of a developer."""
    with Client(live_server.url, make_world().key("manage")[1]) as client:
        yield client


def test_a_renamed_or_changed_file_is_a_new_upload_and_the_same_file_is_not(
    client: Client, tmp_path: Path
) -> None:
    def push(name: str, label: str, task: str = "classification") -> list[str]:
        file = tmp_path / name
        file.write_text(
            "".join(json.dumps({"text": f"text {n}", "label": f"{label}{n % 2}"}) + "\n" for n in range(40))
        )
        client.push_dataset({"train": file}, task=task, name="a", check_only=True)
        return sorted(Upload.unscoped.values_list("filename", flat=True))

    assert push("a.jsonl", "x") == ["a.jsonl"]
    assert push("a.jsonl", "x") == ["a.jsonl"]
    assert push("b.jsonl", "x") == ["a.jsonl", "b.jsonl"]
    assert push("a.jsonl", "y") == ["a.jsonl", "a.jsonl", "b.jsonl"]


# The Open Inference Protocol

TEXT: dict[str, Any] = {"name": "TEXT", "shape": [2], "datatype": "BYTES", "data": ["a", "größer"]}
SIGNATURE = signature_of("classification", pairs=False)
ANSWER: dict[str, Any] = {
    "id": "ours",
    "model": {"name": "acme/mood", "version": 1, "digest": "0" * 64},
    "results": [
        {
            "label": "a", "scores": {"a": 0.75, "b": 0.25}, "truncated": False, "level": "full",
            "confidence": 0.75,
        }
    ] * 2,
    "usage": {"tokens": 6}, "plot": {}, "timings_ms": {},
}  # fmt: skip


def parsed(body: Any, **tensor: Any) -> OipRequest:
    """The request with this body, its tensor changed."""
    return parse_request(
        Body({"inputs": [{**TEXT, **tensor}], **body}, memoryview(b"")),
        SIGNATURE,
        models=("mood", "acme/mood"),
        versions=("", "1"),
    )


CLIENTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "tritonclient": (
        {
            "id": "a",
            "parameters": {
                "sequence_id": 7, "sequence_start": True, "sequence_end": False, "priority": 3,
                "timeout": 5_000_000, "binary_data_output": False,
            },
        },
        {"shape": [2, 1], "data": [["a"], ["größer"]]},
        "priority, sequence_end, sequence_id, sequence_start",
    ),
    "mlserver": (
        {"parameters": {"content_type": "str", "headers": {"Ce-Id": "7"}}},
        {"shape": [2, 1], "parameters": {"content_type": "str", "headers": {}}},
        "headers",
    ),
    "mlserver, base64": (
        {},
        {"parameters": {"content_type": "base64"}, "data": [b64("a"), b64("größer")]},
        "",
    ),
    "mlserver, outputs": (
        {"outputs": [{"name": "LABEL", "parameters": {"content_type": "str"}}, {"name": "SCORES"}]},
        {},
        "",
    ),
    "kserve": (
        {"id": "a", "model_name": "mood", "model_version": "1", "parameters": {"priority": "high"}},
        {"parameters": {}},
        "priority",
    ),
    "kserve, nulls": (
        {"model_name": None, "model_version": None, "parameters": {"binary_data_output": None}},
        {"parameters": None},
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
def test_what_a_stock_client_sends_is_taken_and_what_has_no_effect_is_listed(name: str) -> None:
    body, tensor, ignored = CLIENTS[name]
    request = parsed(body, **tensor)
    assert request.inputs == [{"text": "a"}, {"text": "größer"}]
    answer = json.loads(oip_response(ANSWER, request, SIGNATURE).content)
    assert answer["parameters"].get("ignored", "") == ignored
    assert answer["id"] == (body.get("id") or "ours")


@pytest.mark.parametrize(
    ("body", "tensor", "named"),
    [
        ({"parameters": {"content_type": "hg_json"}}, {}, "content_type"),
        ({"model_version": "2"}, {}, "model_version"),
        ({}, {"parameters": {"content_type": "hg_json"}}, "content_type of TEXT"),
        ({}, {"parameters": {"content_type": "base64"}}, "not base64 .element 0"),
        ({}, {"parameters": {"content_type": "base64"}, "data": ["YQ==", "/w=="]}, "not valid UTF-8"),
        ({"outputs": [{"name": "LABEL", "parameters": {"classification": 2}}]}, {}, "'classification'"),
        (
            {"outputs": [{"name": "LABEL", "parameters": {"content_type": "base64"}}]},
            {},
            "content_type of LABEL",
        ),
    ],
)
def test_what_could_change_an_answer_is_refused_by_name(
    body: dict[str, Any], tensor: dict[str, Any], named: str
) -> None:
    with pytest.raises(HmiError, match=named):
        parsed(body, **tensor)


# Folders that the command packs


@pytest.mark.parametrize("packed", ["my model/", "my model\\"])
def test_the_command_packs_a_folder_of_any_age_and_knows_an_adapter_of_any_tool(
    server: Script, hmi: Hmi, tmp_path: Path, packed: str
) -> None:
    version = tmp_path / "tickets"
    for name, content in MEMBERS.items():
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_bytes(content)
        os.utime(version / name, (0, 0))
    adapter = tmp_path / "theirs.zip"
    adapter.write_bytes(zip_of({f"{packed}{name}": content for name, content in ADAPTER.items()}))
    server.replies = [Reply(201, VERSION), Reply(201, VERSION)]
    imported = hmi("models", "import", version)
    assert imported.code == 0, imported.err
    assert (server.asked[-1].path, b"artifacts/hplm/" in server.asked[-1].body) == ("/api/v1/import", True)
    assert hmi("models", "import", adapter, "--name", "theirs", "--parent", "3").code == 0
    assert server.asked[-1].path == "/api/v1/import/adapter"
