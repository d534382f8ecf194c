"""What clients of the OpenAI API, chat templates of checkpoints and files of batches bring along."""

import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient
from transformers.utils.chat_template_utils import render_jinja_template

from inference.batches.models import Batch
from inference.errors import HplmError
from inference.generation.requests import FinishReason, TokenEvent
from inference.openai import prepared_completion
from inference.openai.choices import Choice, Delta
from inference.openai.completions import CHAT, TEXT, ChunkStream, Heading, Usage, response_json
from inference.openai.embeddings import EmbeddingsEndpoint, parse_embeddings_request
from inference.openai.generation_requests import ChatCall
from inference.openai.request_fields import IGNORED
from inference.text.chat_template import ChatMessage, ChatTemplate
from inference.text.detokenizer import Detokenizer
from inference.text.prompts import PromptTokenizer
from tenants.base.errors import HmiError
from tests.background import run_batch
from tests.integration.inference.generation.conftest import Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker
from tests.unit.tiny_decoder import EOS, byte_tokenizer, tiny_decoder_folder
from versiontree.tree.models import RootKind
from versiontree.tree.services.roots import root_register

HEADING = Heading("c1", 1_767_225_600, "acme/poet:3", "d" * 64)
DETOKENIZER = Detokenizer(byte_tokenizer())
QUESTION = [{"role": "user", "content": "Hello"}]
COMPLETION = {"model": "acme/writer", "prompt": "one", "max_tokens": 30}
TURN = {"model": "acme/writer", "messages": QUESTION, "max_tokens": 30}
NOW = datetime(2026, 7, 1, tzinfo=UTC)


def events_of(tokens: list[int], *alternatives: tuple[int, float]) -> list[TokenEvent]:
    """The events of a completion that ends with its last token."""
    events = [
        TokenEvent(request_id="r", index=index, token=token, logprob=-0.5, alternatives=alternatives)
        for index, token in enumerate(tokens)
    ]
    return [*events, TokenEvent(request_id="r", index=len(tokens), finish_reason=FinishReason.LENGTH)]


def streamed(events: list[TokenEvent], **options: Any) -> tuple[str, dict[str, list[Any]]]:
    """The text and the log probabilities of a stream of these events, one event a chunk."""
    choice, stream, text = Choice(0, DETOKENIZER, **options), ChunkStream(TEXT, HEADING), ""
    found: dict[str, list[Any]] = {}
    for event in events:
        for line in stream.chunk(choice.accept([event])).decode().splitlines():
            if not line:
                continue
            part = json.loads(line.removeprefix("data: "))["choices"][0]
            text += part["text"]
            for name, values in (part.get("logprobs") or {}).items():
                found.setdefault(name, []).extend(values)
    return text, found


# Streams


@pytest.mark.parametrize("sign", "\v\f\x1c\x1d\x1e\x85\u2028\u2029")
@pytest.mark.parametrize("style", [CHAT, TEXT])
def test_an_event_is_one_line_for_clients_that_end_lines_as_python_does(sign: str, style: Any) -> None:
    sent = ChunkStream(style, HEADING).chunk(Delta(0, f"a{sign}b é"))
    (line,) = [line for line in sent.decode().splitlines() if line]
    (choice,) = json.loads(line.removeprefix("data: "))["choices"]
    assert (choice.get("text") or choice["delta"]["content"]) == f"a{sign}b é"


# Log probabilities


def test_a_part_of_a_character_has_its_bytes_as_its_name_and_offsets_count_characters(
    program: APIClient, worker: ScriptedWorker
) -> None:
    text = "aé😀 the!"
    worker.says(*tokens_of(text))
    (choice,) = program.post("/v1/completions", {**COMPLETION, "logprobs": 1}, format="json").json()[
        "choices"
    ]
    found = choice["logprobs"]
    assert choice["text"] == text
    emoji = [f"bytes:\\x{byte:02x}" for byte in "😀".encode()]
    assert found["tokens"] == ["a", "bytes:\\xc3", "bytes:\\xa9", *emoji, " the", "!"]
    assert found["text_offset"] == [0, 1, 1, 2, 2, 2, 2, 3, 7]
    assert [list(each) for each in found["top_logprobs"]] == [[name] for name in found["tokens"]]


def test_each_alternative_that_was_asked_for_is_there_once() -> None:
    lead = [tokens_of(sign)[0] for sign in ("é", "€", "😀")]
    unknown = [(10_000 + at, -5.0 - at) for at in range(3)]  # a checkpoint may have more rows than tokens
    asked = [(token, -1.0 - at) for at, token in enumerate([*lead, *tokens_of("x")])] + unknown
    _, found = streamed(events_of(tokens_of("a"), *asked))
    (top,) = found["top_logprobs"]
    assert len(top) == len(asked)
    assert list(top.values()) == [logprob for _, logprob in asked]
    assert list(top)[:4] == ["bytes:\\xc3", "bytes:\\xe2", "bytes:\\xf0", "x"]


@pytest.mark.parametrize("stop", [None, "END", "é"])
@pytest.mark.parametrize("text", ["yes. END é", "é😀é", "E EN END", "none"])
def test_the_tokens_of_a_stream_are_those_of_its_text(text: str, stop: str | None) -> None:
    given, found = streamed(events_of(tokens_of(text)), stop_strings=[stop] if stop else [])
    assert given == (text.split(stop)[0] if stop else text)
    names = found.get("tokens", [])
    parts = [
        name.removeprefix("bytes:").encode().decode("unicode_escape").encode("latin-1") for name in names
    ]
    assert b"".join(parts) == given.encode()
    whole = [
        (name, at) for name, at in zip(names, found.get("text_offset", []), strict=True) if at < len(given)
    ]
    assert len(whole) == len(names)
    assert all(given.startswith(name, at) for name, at in whole if not name.startswith("bytes:"))


def test_broken_characters_move_no_offset() -> None:
    lead, rest = tokens_of("é")
    given, found = streamed(events_of([lead, *tokens_of("a"), rest, lead, lead, *tokens_of("b")]))
    assert given == "\ufffda\ufffd\ufffd\ufffdb"
    assert found["text_offset"] == [0, 1, 2, 3, 4, 5]


# Number format


def test_each_answer_names_its_number_format(program: APIClient, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("yes"), EOS)
    for path, body in (("completions", COMPLETION), ("chat/completions", TURN)):
        told = program.post(f"/v1/{path}", body | {"n": 2}, format="json")
        assert told.json()["hmi"] == {"number_format": "float32"}
        assert told["x-hmi-number-format"] == "float32"
    made = sent(program, b'"one"\n').json()
    run_batch(made["id"])
    (line,) = read(program, f"/api/v1/batches/{made['id']}/results")
    assert line["result"]["hmi"] == {"number_format": "float32"}


def test_a_stream_names_its_number_format_from_the_first_text_on() -> None:
    choice, stream = Choice(0, DETOKENIZER), ChunkStream(CHAT, HEADING, include_usage=True)
    first, *others = events_of(tokens_of("yes"))
    sent = stream.opening(1) + stream.chunk(choice.accept([replace(first, number_format="bfloat16")]))
    sent += stream.chunk(choice.accept(others)) + stream.end(Usage(3, 3))
    opening, *chunks = [json.loads(line[6:]) for line in sent.decode().split("\n\n") if line[6:7] == "{"]
    assert "hmi" not in opening, "no worker has said anything yet"
    assert [chunk["hmi"] for chunk in chunks] == [{"number_format": "bfloat16"}] * 3


def test_an_answer_of_two_workers_names_both_number_formats() -> None:
    choice = Choice(0, DETOKENIZER)
    first, second, *others = events_of(tokens_of("yes"))
    events = [replace(first, number_format="float32"), replace(second, number_format="bfloat16"), *others]
    body = response_json(CHAT, HEADING, [[choice.accept([event]) for event in events]], Usage(3, 3))
    assert body["hmi"] == {"number_format": "bfloat16, float32"}


# Fields


def test_fields_of_other_servers_are_ignored_and_listed(program: APIClient, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("yes"))
    others = {"input_type": "query", "prompt_cache_key": "k", "keep_alive": "5m", "priority": 1, "user": "u"}
    messages = [
        {"role": "user", "content": "Hello", "id": "msg_1", "createdAt": "2026-07-01", "parts": []},
        {"role": "assistant", "content": "Yes", "id": 7, "reasoning_content": "hm", "annotations": None},
        {"role": "user", "content": [{"type": "text", "text": "So?", "cache_control": {}}]},
    ]
    body = {**TURN, **others, "messages": messages, "chat_template_kwargs": {"enable_thinking": False}}
    body |= {"top_k": -1, "top_p": 0, "max_tokens": -1, "metadata": None}
    told = program.post("/v1/chat/completions", body, format="json")
    assert told.status_code == 200, told.content
    assert set(told.json()["hmi"]["ignored"]) == {
        *others, "chat_template_kwargs", "top_k", "top_p", "max_tokens",
        "messages[].id", "messages[].createdAt", "messages[].parts", "messages[].reasoning_content",
    }  # fmt: skip
    (received,) = worker.received
    assert received.generate is not None
    assert (received.generate.top_k, received.generate.temperature) == (0, 0.0), "the likeliest token"
    assert "ignored" not in program.post("/v1/chat/completions", TURN, format="json").json()["hmi"]


def test_every_ignored_field_is_ignored_by_every_endpoint(program: APIClient, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("yes"))
    others = dict.fromkeys(IGNORED - {"chat_template_kwargs"}, "x")
    told = program.post("/v1/completions", {**COMPLETION, **others}, format="json")
    assert set(told.json()["hmi"]["ignored"]) == set(others)
    request = parse_embeddings_request({"model": "m", "input": "a", **others})
    body = EmbeddingsEndpoint().response_body([], "m", request.options)
    assert set(body["hmi"]["ignored"]) == set(others)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"min_tokens": 5}, "min_tokens"),
        ({"guided_json": {}}, "guided_json"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
        ({"options": {"num_predict": 3}}, "options"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"chat_template_kwargs": {"tools": [{}]}}, "tools"),
        ({"chat_template_kwargs": {"x": {"a": 1}}}, "chat_template_kwargs"),
        ({"messages": [{**QUESTION[0], "prefix": True}]}, "messages[0]"),
        ({"messages": [{**QUESTION[0], "images": ["aGk="]}]}, "messages[0]"),
        ({"temprature": 1}, "temprature"),
        ({"top_k": -2}, "top_k"),
        ({"top_p": -0.5}, "top_p"),
    ],
)
def test_fields_that_could_change_an_answer_are_refused_by_name(more: dict[str, Any], param: str) -> None:
    with pytest.raises(HmiError) as refused:
        ChatCall.parse({**TURN, **more})
    assert refused.value.param == param
    assert refused.value.code in ("unsupported_parameter", "invalid_field")


def test_values_for_the_chat_template_reach_it_and_pretend_nothing() -> None:
    template = ChatTemplate(
        "{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}|no{% endif %}"
        "{{ note }}"
    )
    tokenizer = byte_tokenizer()
    prompts = PromptTokenizer(tokenizer, template)
    assert prompts.template_variables == {"enable_thinking", "note"}
    values = {"enable_thinking": False, "note": "<bos>", "other": 1, "messages": []}
    written = prompts.render_chat([ChatMessage("user", "Hi")], now=NOW, values=values)
    assert written == "Hi|no<\u200bbos>"


@pytest.mark.parametrize("prompt", ["\n\n", "\u00a0"])
def test_white_space_alone_is_a_prompt(program: APIClient, worker: ScriptedWorker, prompt: str) -> None:
    worker.says(*tokens_of("yes"))
    told = program.post("/v1/completions", {**COMPLETION, "prompt": prompt}, format="json")
    assert (told.status_code, told.json()["usage"]["prompt_tokens"]) == (200, len(tokens_of(prompt)))
    empty = program.post("/v1/completions", {**COMPLETION, "prompt": ""}, format="json")
    assert (empty.status_code, empty.json()["error"]["code"]) == (400, "empty_text")


def test_token_ids_for_embeddings_name_what_to_set_in_langchain(program: APIClient) -> None:
    body = {"model": "mood", "input": [[1, 2], [3]], "encoding_format": "base64"}
    refused = program.post("/v1/embeddings", body, format="json")
    assert refused.status_code == 400
    assert "check_embedding_ctx_length=False" in refused.json()["error"]["message"]


# Chat templates

TEMPLATES = [
    "{{ {'b': [1, {'c': 'é<'}], 'a': none} | tojson(indent=2) }}",
    "{{ {'b': ['é<'], 'a': none} | tojson(ensure_ascii=True, sort_keys=True, separators=(',', ':')) }}",
    "{{ {'b': [1, 2]} | tojson(true, '\t', (', ', ' = '), true) }}{{ {} | tojson(indent=4) }}",
    "{{ [1, 2, 3] | batch(2, 'x') | list }}{{ [1, 2, 3] | slice(2) | list }}{{ 'a' | center(9) }}|",
    "{{ 3.14159 | round(2) }} {{ 2.5 | round(0, 'ceil') }} {{ '%s-%05.1f' | format('a', 2) }}",
    "{{ '%s %s' % ('x', 3) }}{{ '%(a)s' | format(a=1) }}{{ '{}-{:>4}'.format('a', 1) }}",
    "{{ '<b>x</b>' | striptags }}{{ '<' | e }}{{ ('<' | escape) + 'a' }}{{ '<' | forceescape }}",
    "{{ [1, 2, 3] | sum }}{{ [3, 1] | max }}{{ [3, 1] | min }}{{ [[1], [2]] | sum(start=[]) }}",
    "{% for role, those in messages | groupby('role') %}{{ role }}{{ those | length }}{% endfor %}",
    "{{ 'a b c d' | wordwrap(3) }}{{ 'a b' | wordcount }}{{ ('a long text ' * 9) | truncate(20) }}",
    "{{ 'a b&' | urlencode }}{{ 'see http://x.org' | urlize }}{{ {'a': 'b'} | xmlattr }}",
    "{{ 1234567 | filesizeformat }}{{ {'a': [1]} | pprint }}{{ 'aB'.swapcase() }}{{ '7'.zfill(3) }}",
    "{{ 3 is gt 2 }}{{ 'a' is lower }}{{ 'x' is filter }}{{ 2 is sameas 2 }}{{ 2 is le 3 }}",
    "{% set j = joiner(', ') %}{% for m in messages %}{{ j() }}{{ m.role }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "{{ dict({'a': 1}, b=2) | tojson }}{{ namespace({'a': 1}).a }}{{ {'a': 1}.copy() }}",
    "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
    "{% generation %}{{ messages | map('tojson') | join }}{% endgeneration %}",
]


@pytest.mark.parametrize("source", TEMPLATES)
def test_a_template_has_the_filters_that_transformers_gives_it(source: str) -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    written: Any = render_jinja_template([talk], chat_template=source)
    assert ChatTemplate(source).render([ChatMessage(**each) for each in talk], now=NOW) == written[0][0]


FAULTY = {
    "{{ nosuchfunction() }}": "'nosuchfunction' is undefined",
    "{% if messages | length > 2 %}{{ 1 / 0 }}{% endif %}": "zero",
    "{% for m in messages %}": "endfor",
    "{% for a in range(9999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": "0.5 s of processor",
    "{% if messages | length > 9 %}{{ 'a' * 10 ** 9 }}{% endif %}": "256 MiB of memory; mend the template",
}


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("source", FAULTY)
def test_a_root_whose_template_fails_or_is_slow_is_refused_with_its_words(
    source: str, tmp_path: Path
) -> None:
    folder = tiny_decoder_folder(tmp_path / "decoder")
    (folder / "chat_template.jinja").write_text(source)
    with pytest.raises(HmiError, match=FAULTY[source]) as refused:
        root_register(name="faulty", kind=RootKind.DECODER, source=str(folder), actor=None)
    assert (refused.value.code, refused.value.param) == ("unsupported_checkpoint", "source")


@pytest.mark.parametrize("source", ["{{ raise_exception('no system message') }}", "{{ strftime_now('%Y') }}"])
def test_a_template_that_refuses_or_writes_a_date_is_no_fault(source: str) -> None:
    ChatTemplate(source).check()


@pytest.mark.parametrize("source", ["{{ 1 / 0 }}", "{{ nosuch() }}", "{{ 'a' * 10 ** 9 }}"])
def test_a_template_that_fails_at_a_chat_is_an_error_of_the_request(source: str) -> None:
    with pytest.raises(HplmError) as failed:
        ChatTemplate(source).render([ChatMessage("user", "Hi")], now=NOW)
    assert (failed.value.code, failed.value.message.split()[0]) == ("invalid_field", "messages")


def test_a_chat_that_its_template_takes_too_long_for_is_refused_and_others_go_on(
    program: APIClient, worker: ScriptedWorker, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "{% if messages | length > 9 %}{{ 'a' * 10 ** 9 }}{% endif %}{{ messages[0].content }}"
    prompts = PromptTokenizer(byte_tokenizer(), ChatTemplate(source))
    codec = replace(prepared_completion.generative_codec(served.root), prompts=prompts)
    monkeypatch.setattr(prepared_completion, "generative_codec", lambda root: codec)
    body = {**TURN, "messages": QUESTION * 30}
    for _ in range(2):
        refused = program.post("/v1/chat/completions", body, format="json")
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "messages")
        assert "0.5 s of processor time or 256 MiB" in refused.json()["error"]["message"]
    worker.says(*tokens_of("yes"))
    assert program.post("/v1/chat/completions", TURN, format="json").status_code == 200


# Batches


def request(custom_id: object, **more: Any) -> dict[str, Any]:
    body = {"model": "acme/writer", "prompt": "one", "max_tokens": 5}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body} | more


ODD_LINES: list[object] = [
    None,
    [1, 2],
    "text",
    request(7),
    request(None),
    {key: value for key, value in request("").items() if key != "custom_id"},
    request("x" * 300),
    request("post", method="post"),
    request("url", url="/v1/embeddings"),
    request("body", body="text"),
    request("no body", body=None),
    request("stream", body={**request("")["body"], "stream": True}),
    request("other", body={**request("")["body"], "model": "mood"}),
]


def sent(program: APIClient, content: bytes, **more: str) -> Any:
    """A batch in the product's own format."""
    file = io.BytesIO(content)
    file.name = "in.jsonl"
    return program.post("/api/v1/batches", {"model": "writer", "file": file, **more}, format="multipart")


def sent_requests(served: Served, content: bytes) -> Any:
    """A batch of requests."""
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.full_key}")
    file = io.BytesIO(content)
    file.name = "in.jsonl"
    stored = client.post("/v1/files", {"file": file, "purpose": "batch"}, format="multipart").json()
    asked = {"input_file_id": stored["id"], "endpoint": "/v1/completions", "completion_window": "24h"}
    return client.post("/v1/batches", asked, format="json")


def read(client: APIClient, url: str) -> Iterator[dict[str, Any]]:
    response: Any = client.get(url)
    return map(json.loads, b"".join(response.streaming_content).splitlines())


def test_each_failed_request_of_a_batch_has_its_id_or_its_line(
    db: None, served: Served, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("yes"))
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.full_key}")
    lines = [json.dumps(request("ok-1")), "", json.dumps(request("ok-2")) + "\r"]
    lines += [json.dumps(line) for line in ODD_LINES] + ["{not json", json.dumps(request("ok-3"))]
    made = sent_requests(served, "\ufeff".encode() + "\n".join(lines).encode()).json()
    run_batch(uuid.UUID(made["id"].removeprefix("batch-")))
    told = client.get(f"/v1/batches/{made['id']}").json()
    odd = len(ODD_LINES) + 1
    assert told["request_counts"] == {"total": odd + 3, "completed": 3, "failed": odd}
    answers = read(client, f"/v1/files/{told['output_file_id']}/content")
    assert [(each["custom_id"], each["line"]) for each in answers] == [
        ("ok-1", 1),
        ("ok-2", 3),
        ("ok-3", odd + 4),
    ]
    failed = list(read(client, f"/v1/files/{told['error_file_id']}/content"))
    assert [each["line"] for each in failed] == list(range(4, odd + 4))
    ids = [line.get("custom_id") if isinstance(line, dict) else None for line in [*ODD_LINES, None]]
    usable = [one if isinstance(one, str) and len(one) <= 200 else None for one in ids]
    assert [each["custom_id"] for each in failed] == usable
    params = {each["custom_id"]: each["response"]["body"]["error"]["param"] for each in failed}
    assert (params["post"], params["url"], params["body"]) == ("method", "url", "body")


WRONG_FILES = [
    b"{not json\n" + json.dumps(request("ok")).encode(),
    b"text,label\nIt rains,weather\n",
    b"PK\x03\x04\x14\x00\x00\x00\n",
    b'[{"prompt": "a"}]',
    b'{"text": "a", "label": "b"}\n',
    b"\n \n",
]


@pytest.mark.parametrize("content", WRONG_FILES)
def test_a_file_of_another_kind_is_refused_at_every_door(
    program: APIClient, served: Served, content: bytes
) -> None:
    refused = sent(program, content)
    assert refused.status_code in (400, 422)
    told = sent_requests(served, content)
    assert told.status_code == 400
    for error in (refused.json()["error"], told.json()["error"]):
        assert error["code"] == "empty_file" or error["details"]["line"] == 1
        assert error["code"] == "empty_file" or error["message"].startswith("Line 1: ")
    assert not Batch.unscoped.exists()
