"""The command `hmi` and the Python client with files and texts as people have them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hmi_client import Client
from hmi_client.event_stream import event_data
from tests.integration.hmi_client.conftest import Hmi, config, hmi, script, server
from tests.integration.hmi_client.scripted import Reply, Script, refusal
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.selectors.coverage import coverage_record
from versiontree.tree.selectors.recommended_root import root_recommended

__all__ = ["config", "hmi", "script", "server"]
ODD_BREAKS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
"""Characters at which ``str.splitlines`` splits, and server-sent events do not."""
VERSION = {"id": 1, "kind": "model", "name": "m", "number": 1, "root": "tiny", "state": "building"}
ANSWER: dict[str, Any] = {
    "id": "r1",
    "model": {"name": "acme/mood", "version": 1, "digest": "d"},
    "results": [{"label": "good", "scores": {"good": 0.9}}],
}


def inputs_sent(server: Script) -> list[Any]:
    """The inputs of all infer requests."""
    return [one for asked in server.asked for one in asked.body["inputs"]]


# Streams


def chunk(text: str) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": None}
    return {"id": "c1", "model": "acme/writer:1", "choices": [choice]}


def streamed(*events: object, end: str = "\n") -> Reply:
    """Server-sent events with these line ends and with raw Unicode, as other servers send them."""
    texts = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in events]
    body = "".join(f": still here{end}{end}event: message{end}data: {each}{end}{end}" for each in texts)
    return Reply(200, body.encode(), {"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        ("data: a\n\ndata:b\r\n\r\ndata:  c\r\r", ["a", "b", " c"]),
        ("\ufeffdata: a\n\n", ["a"]),
        ("data: a\ndata: b\ndata\n\n", ["a\nb\n"]),
        ("id: 1\nevent: x\nretry: 9\ndatax: a\n: data: a\n\ndata: b\n\n", ["b"]),
        ("data: a\n\n\n\ndata: cut off", ["a"]),
        ("data: \u2028é🙂\x85\n\n", ["\u2028é🙂\x85"]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_events_are_parsed_by_the_standard_whatever_the_chunks(
    stream: str, events: list[str], size: int
) -> None:
    raw = stream.encode()
    assert list(event_data(raw[at : at + size] for at in range(0, len(raw), size))) == events


def test_a_broken_event_is_a_typed_error(server: Script, hmi: Hmi) -> None:
    server.replies = [streamed(chunk("so "), '{"id": ')]
    ran = hmi("generate", "writer", "x")
    assert (ran.code, ran.out) == (7, "so ")


# Files and stdin


@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("inputs.txt", (), ["A first text.", "A second text."]),
        ("inputs.jsonl", ("--jsonl",), [{"text": "A first text."}, {"text": "A second text."}]),
    ],
)
def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_an_input(
    server: Script,
    hmi: Hmi,
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
    expected: list[Any],
    source: str,
) -> None:
    lines = [each if isinstance(each, str) else json.dumps(each) for each in expected]
    content = "\r\n\r\n".join(lines).encode("utf-8-sig")
    (tmp_path / name).write_bytes(content)
    server.replies = [Reply(body=ANSWER | {"results": ANSWER["results"] * 2})]
    place = ("--file", name) if source == "file" else ()
    ran = hmi("infer", "mood", *place, *options, stdin=content)
    assert ran.code == 0, ran.err
    assert inputs_sent(server) == expected


def test_a_line_break_of_unicode_ends_no_input(server: Script, hmi: Hmi, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(f"{ODD_BREAKS}\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": ODD_BREAKS}, ensure_ascii=False) + "\n")
    server.replies = [Reply(body=ANSWER)] * 2
    assert hmi("infer", "mood", "--file", "t.txt").code == 0
    assert hmi("infer", "mood", "--file", "t.jsonl", "--jsonl").code == 0
    assert inputs_sent(server) == [ODD_BREAKS, {"text": ODD_BREAKS}]
    server.replies = [Reply(body=ANSWER)]
    [line] = hmi("infer", "mood", ODD_BREAKS, "--json").out.splitlines()
    assert json.loads(line)["input"] == ODD_BREAKS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a text\r\n".encode("utf-16"), "is UTF-16"),
        ("\ufeffa text\r\n".encode("utf-16-be"), "is UTF-16"),
        ("a text\r\n".encode("utf-16-le"), "has NUL characters"),
        ("caf\u00e9\n".encode("latin-1"), "is not UTF-8"),
    ],
)
def test_a_file_that_is_not_utf8_is_refused_with_what_it_is(
    server: Script, hmi: Hmi, tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "t.txt").write_bytes(content)
    ran = hmi("infer", "mood", "--file", "t.txt")
    assert (ran.code, f"t.txt {said}" in ran.err, "UTF-8" in ran.err) == (1, True, True)
    assert server.asked == []


@pytest.mark.parametrize("command", [("infer", "mood"), ("generate", "writer"), ("login", "--api-key", "-")])
def test_stdin_that_is_not_utf8_is_refused_with_what_it_is(
    server: Script, hmi: Hmi, command: tuple[str, ...]
) -> None:
    ran = hmi(*command, stdin="a text\r\n".encode("utf-16"))
    assert (ran.code, "stdin is UTF-16" in ran.err, server.asked) == (1, True, [])


@pytest.mark.parametrize(
    ("stdin", "prompt"),
    [
        (b"Once upon\r\n", "Once upon"),
        (b"Once upon\n\n", "Once upon\n"),
        (b"  \n", "  "),
        ("\ufeffa\u2028\n".encode(), "a\u2028"),
    ],
)
def test_one_final_line_end_of_stdin_is_no_part_of_a_prompt(
    server: Script, hmi: Hmi, stdin: bytes, prompt: str
) -> None:
    server.replies = [streamed(chunk(" a time"), "[DONE]")]
    assert hmi("generate", "writer", stdin=stdin).code == 0
    assert server.asked[0].body["prompt"] == prompt


# One value where several may stand


def test_one_text_or_object_needs_no_list(server: Script) -> None:
    server.replies = [Reply(body=ANSWER)] * 4
    with Client(server.url, "a.b") as client:
        for inputs in ("one text", {"text": "one", "text_pair": "two"}, ["one text"], iter(["a", "b"])):
            client.infer("mood", inputs)  # type: ignore[arg-type]
    sent = [asked.body["inputs"] for asked in server.asked]
    assert sent == [["one text"], [{"text": "one", "text_pair": "two"}], ["one text"], ["a", "b"]]


# A new model without a parent, and the storage


@pytest.fixture
def acme(db: None, in_platform_scope: None, artifact_root: Path, redis_url: str) -> TenantFixture:
    """A tenant with a dataset and a corpus."""
    return tree_factory.create_tenant("acme")


def test_a_model_without_a_parent_is_built_on_the_recommended_one(
    acme: TenantFixture, tmp_path: Path
) -> None:
    key = with_key(acme, "manage")
    body = {"name": "spam", "dataset": acme.dataset.pk}
    refused = key.post(f"{V1}/models", body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (409, "parent")
    tree_factory.ready_decoder(tmp_path / "smol")
    roots = [tree_factory.ready_root(tmp_path / name, name) for name in ("older", "newer")]
    recommended = root_recommended(acme.tenant)
    assert recommended is not None
    assert key.post(f"{V1}/estimate", body).status_code == 200
    assert key.post(f"{V1}/models", body).json()["parent"] == recommended.version.pk
    domain = tree_factory.ready_domain(roots[0], "biomedicine")
    for version, trigrams in (*zip(roots, (1, 2), strict=True), (domain, 5)):
        made = partial(coverage_record, tenant=acme.tenant, upload=acme.dataset, version=version)
        made(levels=(trigrams, 0, 9 - trigrams))
    assert key.post(f"{V1}/models", body | {"name": "ham"}).json()["parent"] == domain.pk


def test_train_needs_no_parent_and_says_which_it_took(server: Script, hmi: Hmi) -> None:
    root = VERSION | {"id": 7, "kind": "root", "name": "minilm", "state": "ready"}
    made = VERSION | {"parent": 7}
    server.replies = [refusal(404, "not_found", "not_found"), Reply(201, made), Reply(body=root)]
    ran = hmi("train", "mood", "--data", "1")
    assert (ran.code, "minilm:1" in ran.err) == (0, True), ran.err
    assert "parent" not in server.asked[1].body
