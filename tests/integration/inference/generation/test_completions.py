"""Chats and completions over HTTP: whole answers, streams, refusals, and clients that go away."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pytest_django import Settings
from redis import Redis
from rest_framework.test import APIClient

from inference.api.admission import close_gateway
from inference.queueing.messages import ReplyError
from inference.queueing.transport import RequestQueue
from tenants.usage.models import UsageDay
from tests.integration.inference.generation.conftest import NARROW, QUESTION, Served, tokens_of
from tests.integration.inference.generation.scripted_worker import BUSY_MS, ScriptedWorker
from tests.processes import wait_until
from tests.unit.tiny_decoder import EOS, POSITIONS

pytestmark = pytest.mark.django_db
Chat = Callable[..., httpx.Response]
PROMPT = "[user]Hello\n[assistant]"
"""What the root's template makes of QUESTION."""


def events(text: str) -> list[Any]:
    """The data of a stream's events."""
    return [
        line if line == "[DONE]" else json.loads(line)
        for line in (part.removeprefix("data: ") for part in text.split("\n\n") if part.startswith("data: "))
    ]


def error(answer: Any) -> tuple[int, str, str | None]:
    told = answer.json()["error"]
    return answer.status_code, told["code"], told["param"]


def test_a_chat_is_answered_with_a_message_and_its_usage(
    chat: Chat, worker: ScriptedWorker, served: Served
) -> None:
    worker.says(*tokens_of("Good morning"), EOS)
    answer = chat(max_tokens=20, seed=7, temperature=0)
    told = answer.json()
    assert (told["object"], told["model"]) == ("chat.completion", "acme/writer:1")
    assert told["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Good morning", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    prompt, generated = len(tokens_of(PROMPT)), len(tokens_of("Good morning")) + 1
    assert told["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    }
    assert (answer.headers["x-hmi-model"], len(answer.headers["x-hmi-digest"])) == ("acme/writer:1", 64)
    (request,) = worker.received
    sampling = request.generate
    assert sampling is not None
    assert (sampling.seed, sampling.temperature, sampling.max_tokens) == (7, 0.0, 20)
    assert sampling.stop_tokens == {EOS}
    assert request.tokens == prompt


def test_a_text_is_continued_in_n_choices_for_each_prompt(web: httpx.Client, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of(" the end"))
    body = {"model": "writer", "prompt": ["one", "two"], "n": 2, "seed": 5, "max_tokens": 3, "logprobs": 1}
    told = web.post("/v1/completions", json=body).json()
    assert told["object"] == "text_completion"
    assert [choice["index"] for choice in told["choices"]] == [0, 1, 2, 3]
    assert {choice["text"] for choice in told["choices"]} == {" the e"}
    assert {choice["finish_reason"] for choice in told["choices"]} == {"length"}
    assert told["choices"][0]["logprobs"]["tokens"] == [" the", " ", "e"]
    assert told["usage"]["prompt_tokens"] == len(tokens_of("one")) + len(tokens_of("two"))
    assert told["usage"]["completion_tokens"] == 12
    seeds = sorted(request.generate.seed for request in worker.received if request.generate)
    assert seeds == [5, 5, 6, 6], "a prompt has the same seeds in any company"


def test_a_stream_gives_characters_whole_and_ends_with_the_usage(chat: Chat, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("né 😀"), EOS)
    answer = chat(stream=True, stream_options={"include_usage": True}, logprobs=True, top_logprobs=2)
    assert answer.headers["content-type"] == "text/event-stream", answer.text
    assert (answer.headers["x-hmi-model"], answer.headers["cache-control"]) == ("acme/writer:1", "no-store")
    *chunks, last, done = events(answer.text)
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], len(tokens_of("né 😀")) + 1)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    parts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert [part for part in parts if part] == ["n", "é", " ", "😀"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    (first,) = chunks[1]["choices"][0]["logprobs"]["content"]
    assert (first["token"], first["logprob"], len(first["top_logprobs"])) == ("n", -0.5, 2)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_text_and_takes_the_rest_back(
    chat: Chat, worker: ScriptedWorker, served: Served, stream: bool
) -> None:
    script = worker.says(*tokens_of("yes. END and more"), hold_after=len(tokens_of("yes. END a")))
    tokens, busy_ms = generated(served)
    answer = chat(stop=["END"], stream=stream)
    if stream:
        chunks = [each["choices"][0] for each in events(answer.text)[:-1]]
        text = "".join(chunk["delta"].get("content", "") for chunk in chunks)
        reason = chunks[-1]["finish_reason"]
    else:
        (choice,) = answer.json()["choices"]
        text, reason = choice["message"]["content"], choice["finish_reason"]
    assert (text, reason) == ("yes. ", "stop")
    wait_until(lambda: worker.cancelled == [worker.received[0].id])
    assert not script.go_on.is_set()
    wait_until(lambda: generated(served)[0] > tokens)
    now, busy_now = generated(served)
    assert busy_now - busy_ms == pytest.approx(BUSY_MS * (now - tokens))


def generated(served: Served) -> tuple[int, float]:
    """The tokens of completions that were counted, and the machine time."""
    rows = UsageDay.unscoped.filter(tenant=served.acme.tenant, model_name="writer")
    return sum(row.generated_tokens for row in rows), sum(row.busy_ms for row in rows)


def test_a_client_that_goes_away_has_cancelled_all_choices(
    web: httpx.Client, worker: ScriptedWorker, served: Served, redis_url: str
) -> None:
    tokens, busy_ms = generated(served)
    worker.says(*tokens_of("a long story"), hold_after=3)
    body = {"model": "acme/writer", "messages": QUESTION, "stream": True, "n": 2}
    with web.stream("POST", "/v1/chat/completions", json=body) as answer:
        text = ""
        for part in answer.iter_text():
            text += part
            if text.count('"content":"l') == 2:
                break
        assert len(worker.received) == 2
    wait_until(lambda: len(worker.cancelled) == 2)
    wait_until(lambda: generated(served)[0] > tokens)
    now, busy_now = generated(served)
    assert busy_now - busy_ms == pytest.approx(BUSY_MS * (now - tokens))
    with Redis.from_url(redis_url) as redis:
        assert RequestQueue(redis, capacity=0).depth() == 0


def test_a_stream_may_be_cancelled_by_its_name(web: httpx.Client, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("a long story"), hold_after=2)
    body = {"model": "acme/writer", "messages": QUESTION, "stream": True}
    headers = {"X-Request-Id": "story"}
    with web.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        assert answer.headers["x-request-id"] == "story"
        wait_until(lambda: bool(worker.received))
        assert web.delete("/api/v1/infer/story").status_code == 204
        told = events(answer.read().decode())
    assert told[-1]["error"]["code"] == "cancelled", "no [DONE]"


def test_an_error_of_the_engine_is_the_status_or_the_last_event(chat: Chat, worker: ScriptedWorker) -> None:
    failure = ReplyError("inference_failed", "The numbers of this model are not finite.")
    worker.says(*tokens_of("so"), error=failure)
    assert error(chat()) == (500, "inference_failed", None)
    *_, last = events(chat(stream=True).text)
    assert (last["error"]["code"], last["error"]["message"]) == (failure.code, failure.message)


def test_without_a_worker_a_request_is_refused_and_with_a_busy_one_it_runs_out_of_time(
    program: APIClient, served: Served, redis_client: Redis, redis_url: str, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    close_gateway()  # it remembers the workers of other tests for a moment
    body = {"model": "writer", "messages": QUESTION}
    for stream in (False, True):
        refused = program.post("/v1/chat/completions", body | {"stream": stream}, format="json")
        assert error(refused)[:2] == (503, "worker_unavailable")
        assert refused["Retry-After"]
    settings.HMI_GENERATION_DEADLINE_S = 0.2
    monkeypatch.setattr("inference.openai.completion_run.GRACE_S", 0.1)
    with ScriptedWorker(redis_url, served.root) as worker:
        worker.paused.set()
        late = program.post("/v1/chat/completions", body, format="json")
    assert error(late)[:2] == (504, "deadline_exceeded")
    assert RequestQueue(redis_client, capacity=0).depth() == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"model": "mood"}, (400, "invalid_field", "model")),
        ({"model": "globex/writer"}, (404, "model_not_found", "model")),
        ({"model": "writer@staging"}, (404, "model_not_found", "model")),
        ({"max_tokens": POSITIONS}, (400, "invalid_field", "max_tokens")),
        ({"messages": [{"role": "user", "content": "x" * 200}]}, (400, "invalid_field", "messages")),
        ({"n": 129}, (400, "invalid_field", "n")),
    ],
)
def test_invalid_completion_is_refused_at_its_field(
    program: APIClient, settings: Settings, body: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    settings.HMI_INFER_CAPACITY = 40
    asked = {"model": "writer", "messages": QUESTION, **body}
    assert error(program.post("/v1/chat/completions", asked, format="json")) == expected


def test_generative_models_answer_here_alone_and_to_keys_with_the_scope(
    program: APIClient, served: Served
) -> None:
    classified = program.post("/api/v1/infer", {"model": "writer", "inputs": ["a"]}, format="json")
    assert classified.json()["error"]["param"] == "model"
    assert "/v1/chat/completions" in classified.json()["error"]["message"]
    listed = {model["id"]: model["hmi"] for model in program.get("/v1/models").json()["data"]}
    assert listed["acme/writer"]["task"] == "generation"
    body = {"model": "acme/writer", "prompt": "a"}
    for key, expected in {
        served.manage_key: (403, "forbidden"),
        served.strangers_key: (404, "model_not_found"),
        "wrong": (401, "invalid_api_key"),
    }.items():
        caller = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}")
        assert error(caller.post("/v1/completions", body, format="json"))[:2] == expected


def test_an_idempotency_key_has_one_answer_and_is_not_for_streams(
    web: httpx.Client, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("once"), EOS)
    body, headers = {"model": "writer", "messages": QUESTION}, {"Idempotency-Key": "one-answer"}
    first, second = (web.post("/v1/chat/completions", json=body, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert second.headers["x-hmi-digest"] == first.headers["x-hmi-digest"]
    assert len(worker.received) == 1
    streamed = web.post("/v1/chat/completions", json={**body, "stream": True}, headers=headers)
    assert error(streamed) == (400, "unsupported_parameter", "Idempotency-Key")


def test_generated_tokens_are_charged_as_they_come_and_the_next_request_is_refused(
    web: httpx.Client, worker: ScriptedWorker, served: Served
) -> None:
    script = worker.says(*tokens_of("a long story of many words, and of some more"), EOS, hold_after=40)
    body = {"model": "acme/writer", "messages": QUESTION, "stream": True}
    headers = {"Authorization": f"Bearer {served.narrow_key}"}
    assert 2 * len(tokens_of(PROMPT)) <= NARROW, "without what is generated a second one would pass"
    with web.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        parts = answer.iter_text()
        text = ""
        while text.count("\n\n") < 1 + 32:
            text += next(parts)
        refused = web.post("/v1/chat/completions", json=body, headers=headers)
        script.go_on.set()
        text += "".join(parts)
    told = refused.json()["error"]
    assert (refused.status_code, told["code"]) == (429, "rate_limit_exceeded")
    assert "tokens per minute" in told["message"]
    assert int(refused.headers["retry-after"]) >= 1
    assert events(text)[-1] == "[DONE]", "the stream under way goes on"


def test_a_prompt_that_cannot_fit_is_refused_by_its_beginning_and_charged(
    web: httpx.Client, served: Served
) -> None:
    text = "0123456789" * 100_000
    chat = {"model": "acme/writer", "messages": [{"role": "user", "content": text}]}
    prompts = {"model": "acme/writer", "prompt": [text] * 3}
    for address, body in {"/v1/chat/completions": chat, "/v1/completions": prompts}.items():
        refused = web.post(address, json=body)
        told = refused.json()["error"]
        assert (refused.status_code, told["code"]) == (400, "invalid_field")
        assert (
            f"more than {POSITIONS - 1} tokens; the context of this model has {POSITIONS}" in told["message"]
        )
    headers = {"Authorization": f"Bearer {served.other_narrow_key}"}
    codes = [web.post("/v1/completions", json=prompts, headers=headers).status_code for _ in range(2)]
    assert codes[1] == 429, "what was read of the first is owed"
