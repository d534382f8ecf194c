"""Chats and completions as a real worker writes them, and batches of them."""

import io
import json
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis
from rest_framework.test import APIClient

from inference.batches.models import Batch
from inference.openai import batched_completions
from inference.openai.generation_requests import GenerationCall
from inference.openai.prepared_completion import EncodedCompletion, encode_completion
from inference.queueing.transport import RequestQueue
from tenants.datasets.services.files import file_create
from tests.background import run_batch
from tests.integration.inference.generation.conftest import QUESTION, Served, tokens_of
from tests.integration.inference.generation.test_completions import PROMPT, events
from tests.integration.jobs.generative_world import WRITERS_LORA
from tests.unit.inference.generation.decoder_world import generated
from tests.unit.tiny_decoder import EOS, byte_tokenizer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("real_worker")]
Chat = Callable[..., httpx.Response]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def expected(prompt: str, most: int) -> list[int]:
    """The greedy completion by transformers, with the LoRA merged into the weights; without the last token,
    if it is the one that ends a text."""
    tokens = generated("llama", str(WRITERS_LORA), tuple(tokens_of(prompt)), most)
    return [token for token in tokens if token != EOS]


def text_of(token: int) -> str:
    """The text of a token, as far as it is text."""
    text: str = byte_tokenizer().decode([token], skip_special_tokens=False)
    return text


def test_chat_and_its_stream_equal_the_text_of_transformers(chat: Chat) -> None:
    asked = {"max_tokens": 20, "temperature": 0, "logprobs": True}
    whole = chat(**asked).json()
    (choice,) = whole["choices"]
    tokens = expected(PROMPT, 20)
    spoken = [each["token"] for each in choice["logprobs"]["content"]][: len(tokens)]
    assert spoken == [text_of(token) for token in tokens]
    assert choice["finish_reason"] == ("length" if len(tokens) == 20 else "stop")
    chunks = events(chat(**asked, stream=True).text)[:-1]
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert streamed == choice["message"]["content"]
    assert whole["hmi"] == {"number_format": "float32"}
    assert [chunk.get("hmi") for chunk in chunks] == [None] + [whole["hmi"]] * (len(chunks) - 1)


def request(custom_id: str, url: str, **body: Any) -> str:
    line = {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "acme/writer", **body}}
    return json.dumps(line)


def batch_asked(program: APIClient, served: Served, endpoint: str, lines: list[str]) -> Any:
    """The answer to a batch of these requests, through the public door."""
    file = file_create(
        tenant=served.acme.tenant,
        purpose="batch",
        filename="in.jsonl",
        stream=io.BytesIO("\n".join(lines).encode()),
        actor=None,
    )
    asked = {"input_file_id": f"file-{file.pk.hex}", "endpoint": endpoint, "completion_window": "24h"}
    return program.post("/v1/batches", asked, format="json")


def batch_of(program: APIClient, served: Served, endpoint: str, lines: list[str]) -> dict[str, Any]:
    """A batch of these requests that was taken."""
    made = batch_asked(program, served, endpoint, lines)
    assert made.status_code == 200, made.content
    batch: dict[str, Any] = made.json()
    return batch


def run(batch: dict[str, Any]) -> None:
    """What the worker of batches does."""
    run_batch(uuid.UUID(batch["id"].removeprefix("batch-")))


def lines_of(served: Served, file_id: str) -> list[dict[str, Any]]:
    keeper = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.manage_key}")
    content: Any = keeper.get(f"/v1/files/{file_id}/content")
    return [json.loads(line) for line in b"".join(content.streaming_content).splitlines()]


def test_a_batch_of_chats_is_answered_as_one_by_one_and_a_bad_line_fails_alone(
    program: APIClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:

    def breaks(call: GenerationCall, *, root: str) -> EncodedCompletion:
        if call.temperature == 1.5:
            raise KeyError("as a library may")
        return encode_completion(call, root=root)

    monkeypatch.setattr(batched_completions, "encode_completion", breaks)
    sampling = {"temperature": 0, "max_tokens": 8}
    batch = batch_of(
        program,
        served,
        CHAT,
        [
            request("greedy", CHAT, messages=QUESTION, **sampling),
            request("tools", CHAT, messages=QUESTION, tools=[{"type": "function"}]),
            request("stream", CHAT, messages=QUESTION, stream=True),
            request("long", CHAT, messages=QUESTION, max_tokens=10_000),
            request("elsewhere", TEXT, prompt="Once"),
            "{broken",
            request("huge", CHAT, messages=QUESTION, top_k=2**64),
            request("unforeseen", CHAT, messages=QUESTION, temperature=1.5),
            request("two", CHAT, messages=QUESTION, n=2, seed=3, max_tokens=4),
        ],
    )
    run(batch)
    told = program.get(f"/v1/batches/{batch['id']}").json()
    assert (told["status"], told["model"]) == ("completed", "acme/writer")
    assert told["request_counts"] == {"total": 9, "completed": 2, "failed": 7}
    first, two = lines_of(served, told["output_file_id"])
    asked = {"model": "acme/writer", "messages": QUESTION, **sampling}
    whole = program.post(CHAT, asked, format="json").json()
    assert first["response"]["status_code"] == 200
    body = first["response"]["body"]
    assert (body["object"], body["model"]) == ("chat.completion", "acme/writer:1")
    assert (body["choices"], body["usage"]) == (whole["choices"], whole["usage"])
    assert [choice["index"] for choice in two["response"]["body"]["choices"]] == [0, 1]
    errors = [(one["custom_id"], one["response"]) for one in lines_of(served, told["error_file_id"])]
    assert [(name, response["body"]["error"]["code"]) for name, response in errors] == [
        ("tools", "unsupported_parameter"),
        ("stream", "unsupported_parameter"),
        ("long", "invalid_field"),
        ("elsewhere", "invalid_field"),
        (None, "invalid_json"),
        ("huge", "invalid_field"),
        ("unforeseen", "internal"),
    ]
    assert {response["status_code"] for _, response in errors[:-1]} == {400}
    assert errors[-1][1]["status_code"] == 500


def test_cancelled_batch_keeps_its_results_and_leaves_the_queue_empty(
    program: APIClient, served: Served, redis_url: str
) -> None:
    lines = [request(str(at), TEXT, prompt="Once", max_tokens=4) for at in range(40)]
    batch, other = (batch_of(program, served, TEXT, lines) for _ in range(2))
    row = uuid.UUID(batch["id"].removeprefix("batch-"))
    run_batch(row, time_slice_s=0)
    assert program.post(f"/v1/batches/{batch['id']}/cancel").json()["status"] == "cancelling"
    run(batch)
    told = program.get(f"/v1/batches/{batch['id']}").json()
    assert told["status"] == "cancelled"
    answered = lines_of(served, told["output_file_id"])
    assert 0 < len(answered) == told["request_counts"]["completed"] < 40
    assert Batch.unscoped.get(pk=uuid.UUID(other["id"].removeprefix("batch-"))).lines == 0
    with Redis.from_url(redis_url) as redis:
        assert RequestQueue(redis, capacity=0, background=True).depth() == 0


def test_lines_of_the_products_own_batches_are_prompts_chats_or_requests(program: APIClient) -> None:
    sampling = {"temperature": 0, "max_tokens": 6}
    lines: list[Any] = [
        "Once",
        {"id": "chat", "messages": QUESTION, **sampling},
        {"id": "text", "prompt": "Once", **sampling},
        {"id": "other", "model": "mood", "prompt": "Once"},
        {"text": "Once"},
    ]
    file = io.BytesIO(b"\n".join(json.dumps(line).encode() for line in lines))
    file.name = "in.jsonl"
    made = program.post("/api/v1/batches", {"model": "writer", "file": file}, format="multipart").json()
    run_batch(made["id"])
    answers, errors = (
        [json.loads(line) for line in b"".join(found.streaming_content).splitlines()]  # type: ignore[attr-defined]
        for kind in ("results", "errors")
        if (found := program.get(f"/api/v1/batches/{made['id']}/{kind}"))
    )
    assert [answer["result"]["object"] for answer in answers] == [
        "text_completion",
        "chat.completion",
        "text_completion",
    ]
    alone = program.post(TEXT, {"model": "writer", "prompt": "Once", **sampling}, format="json").json()
    assert answers[2]["result"]["choices"] == alone["choices"]
    assert [(one["line"], one["error"]["code"]) for one in errors] == [
        (4, "invalid_field"),
        (5, "invalid_field"),
    ]


def test_a_batch_is_refused_by_a_model_of_the_other_kind(program: APIClient, served: Served) -> None:
    line = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"model": "mood", "messages": QUESTION}}
    made = batch_asked(program, served, CHAT, [json.dumps(line)])
    error = made.json()["error"]
    assert (made.status_code, error["code"], error["param"]) == (400, "invalid_field", "model")
    assert "Line 1: mood is not generative" in error["message"]
