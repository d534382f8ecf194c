"""The Open Inference Protocol at the product's door: models described, asked, and refused in its shape."""

import gzip
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from inference.open_inference.parsers import JSON_LENGTH
from tenants.accounts.models import User
from tests.integration.inference.api.conftest import Ask, Served
from tests.processes import InferenceWorker
from tests.rounding import up_to_rounding

TEXTS = ["a good stone in the river", "größer 😀"]
TEXT: dict[str, Any] = {"name": "TEXT", "shape": [2], "datatype": "BYTES", "data": TEXTS}


Pack = Callable[[bytes], bytes]


@pytest.fixture
def client(db: None, served: Served) -> APIClient:
    """A client with the tenant's key."""
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")


def infer(client: APIClient, body: object, path: str = "acme/mood", **headers: str) -> Any:
    """The answer to this body, JSON if it is not bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(f"/v2/models/{path}/infer", raw, content_type="application/json", headers=headers)


def as_bytes(texts: list[str]) -> bytes:
    """A BYTES tensor."""
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def binary(head: dict[str, Any], *tensors: bytes) -> tuple[bytes, dict[str, str]]:
    """A body with bytes behind its JSON, and the header that says so."""
    raw = json.dumps(head).encode()
    return raw + b"".join(tensors), {JSON_LENGTH: str(len(raw))}


def outputs(answer: Any) -> dict[str, Any]:
    """The data of all outputs in JSON."""
    assert answer.status_code == 200, answer.content
    return {output["name"]: output["data"] for output in answer.json()["outputs"]}


def test_the_answer_is_that_of_the_infer_api(
    client: APIClient, ask: Ask, worker: InferenceWorker, served: Served
) -> None:
    usual = ask("acme/mood", TEXTS, quality="fast").json()
    text = {**TEXT, "parameters": {"content_type": "str"}}
    parameters = {"headers": {"ce-id": "7"}, "priority": 3, "quality": "fast"}
    told = {"id": "mine", "model_name": "mood", "model_version": None, "parameters": parameters}
    answer = infer(client, {**told, "inputs": [text]})
    value = answer.json()
    assert value["parameters"]["ignored"] == "headers, priority"
    assert (value["model_name"], value["model_version"], value["id"]) == ("acme/mood", "1", "mine")
    assert value["parameters"]["digest"] == usual["model"]["digest"]
    assert value["parameters"]["number_format"] == answer["x-hmi-number-format"] == "float32"
    assert value["parameters"]["tokens"] == usual["usage"]["tokens"]
    got = outputs(answer)
    assert got["LABEL"] == [result["label"] for result in usual["results"]]
    assert got["CLASSES"] == list(usual["results"][0]["scores"])
    scores = [score for result in usual["results"] for score in result["scores"].values()]
    assert got["SCORES"] == up_to_rounding(scores)
    assert got["TRUNCATED"] == [False, False]
    assert got["LEVEL"] == [result["level"] for result in usual["results"]]
    assert got["CONFIDENCE"] == up_to_rounding([result["confidence"] for result in usual["results"]])
    assert [output["shape"] for output in value["outputs"]] == [[2], [2, 3], [3], [2], [2], [2]]
    assert "x-ratelimit-remaining-requests" in answer
    assert value["parameters"]["plot_hit_ratio"] == usual["plot"]["hit_ratio"]
    assert float(answer["x-hmi-plot-hit-ratio"]) == usual["plot"]["hit_ratio"]
    assert (answer["x-hmi-model"], answer["x-hmi-digest"]) == ("acme/mood:1", usual["model"]["digest"])
    assert "compute;dur=" in answer["Server-Timing"]


def test_texts_and_outputs_travel_as_bytes_too_and_compressed(
    client: APIClient, worker: InferenceWorker
) -> None:
    usual = outputs(infer(client, {"inputs": [TEXT]}))
    raw = as_bytes(TEXTS)
    tensor = {
        "name": "TEXT",
        "shape": [2, 1],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(raw)},
    }
    wanted = [{"name": "SCORES", "parameters": {"binary_data": True}}, {"name": "LABEL"}]
    body, header = binary({"inputs": [tensor], "outputs": wanted}, raw)
    ways: dict[str, Pack] = {"identity": bytes, "gzip": gzip.compress, "deflate": zlib.compress}
    for encoding, pack in ways.items():
        answer = infer(client, pack(body), **header, **{"Content-Encoding": encoding})
        head = json.loads(answer.content[: int(answer[JSON_LENGTH])])
        behind = answer.content[int(answer[JSON_LENGTH]) :]
        assert answer["x-hmi-model"] == "acme/mood:1"
        label, scores = head["outputs"]
        assert (label["name"], label["data"]) == ("LABEL", usual["LABEL"])
        assert (scores["shape"], scores["parameters"]) == ([2, 3], {"binary_data_size": len(behind)})
        assert [*struct.unpack("<6f", behind)] == up_to_rounding(usual["SCORES"])


@pytest.mark.parametrize(("quality", "level"), [("fast", "table"), ("exact", "full")])
def test_a_request_chooses_its_quality(
    client: APIClient, worker: InferenceWorker, quality: str, level: str
) -> None:
    got = outputs(infer(client, {"inputs": [TEXT], "parameters": {"quality": quality}}))
    assert got["LEVEL"] == [level, level]


def test_spans_of_a_tagging_are_json(client: APIClient, ask: Ask, worker: InferenceWorker) -> None:
    got = outputs(
        infer(client, {"inputs": [TEXT], "parameters": {"timeout": 20_000_000}}, "places/versions/1")
    )
    assert [json.loads(spans) for spans in got["SPANS"]] == [
        result["spans"] for result in ask("places", TEXTS).json()["results"]
    ]


@pytest.mark.parametrize("name", ["acme%2Fmood", "mood%40default", "mood/versions/1"])
def test_a_model_is_described_under_all_its_names(client: APIClient, name: str) -> None:
    about = client.get(f"/v2/models/{name}").json()
    assert (about["name"], about["versions"], about["platform"]) == (
        "acme/mood",
        ["1"],
        "hmi_classification",
    )
    assert about["inputs"] == [{"name": "TEXT", "datatype": "BYTES", "shape": [-1]}]
    assert [output["name"] for output in about["outputs"]] == [
        *("LABEL", "SCORES", "CLASSES", "TRUNCATED", "LEVEL", "CONFIDENCE")
    ]


def test_a_model_is_ready_while_it_is_served(client: APIClient, worker: InferenceWorker) -> None:
    answer = client.get("/v2/models/acme/mood/versions/1/ready")
    assert (answer.status_code, answer.json()) == (200, {"name": "acme/mood", "ready": True})
    unborn = client.get("/v2/models/unborn/ready")
    assert (unborn.status_code, unborn.json()) == (503, {"name": "unborn", "ready": False})


def test_the_server_is_described_to_everybody(db: None) -> None:
    nobody = APIClient()
    assert nobody.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert nobody.get("/v2/health/live").json() == {"live": True}


def changed(**fields: object) -> dict[str, Any]:
    return {"inputs": [{**TEXT, **fields}]}


SIZE = {"binary_data_size": 1}
WRONG: list[tuple[object, str]] = [
    (b"\xff", "not valid UTF-8"),
    ({"inputs": [{}]}, "inputs[0] must have a name"),
    ({"inputs": [TEXT], "model_name": "places"}, "is not that of the URL"),
    ({"inputs": [TEXT, TEXT]}, "The tensor TEXT is sent twice"),
    (changed(name="TOKENS"), "TOKENS is not one of this model, which takes TEXT"),
    (changed(shape=[3]), "has 2 elements, and its shape has 3"),
    (changed(shape=[10**18]), "at most 256"),
    (changed(parameters=SIZE), "either data or the parameter binary_data_size"),
    (changed(data=None, parameters=SIZE), "has 1 bytes of data, of which 0 are there"),
    (changed(data=["a", "\0"]), "Input 1 holds a NUL character"),
    ({"inputs": [TEXT], "outputs": [{"name": "VALUE"}]}, "VALUE is not one of this model, which gives LABEL"),
    ({"inputs": [TEXT], "parameters": {"timeout": "3"}}, "whole number of microseconds"),
    ({"inputs": [TEXT], "parameters": {"quality": "best"}}, "The quality must be one of"),
]


@pytest.mark.parametrize(("body", "expected"), WRONG, ids=lambda value: str(value)[:50])
def test_what_is_wrong_with_a_request_is_said_in_the_protocol_s_words(
    client: APIClient, body: object, expected: str
) -> None:
    answer = infer(client, body)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert expected in answer.json()["error"]


def test_refusals_have_the_status_of_the_infer_api(client: APIClient, served: Served, viewer: User) -> None:
    strangers = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.strangers_key}")
    manager = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.manage_key}")
    answers = {
        401: infer(APIClient(), b"{"),
        403: infer(manager, {"inputs": [TEXT]}),
        404: infer(strangers, {"inputs": [TEXT]}),
        405: client.get("/v2/models/acme/mood/infer"),
        409: infer(client, {"inputs": [TEXT]}, "unborn"),
        415: infer(client, b"x", **{"Content-Encoding": "br"}),
    }
    for status, answer in answers.items():
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert answers[401]["WWW-Authenticate"] == "Bearer"
    nowhere = client.get("/v2/models")
    assert (nowhere.status_code, list(nowhere.json())) == (404, ["error"])


def test_a_bomb_is_refused_before_it_is_unpacked(client: APIClient, settings: Settings) -> None:
    settings.HMI_MAX_BODY_BYTES = 100_000
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    tracemalloc.start()
    answer = infer(client, bomb, **{"Content-Encoding": "gzip"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 413
    assert peak < 10_000_000


def test_bodies_whose_parts_do_not_fit_are_refused(client: APIClient) -> None:
    raw = as_bytes(TEXTS)
    head = changed(data=None, parameters={"binary_data_size": len(raw)})
    body, header = binary(head, raw)
    packed = gzip.compress(body)
    gzipped = header | {"Content-Encoding": "gzip"}
    refusals = {
        "1 bytes behind its last tensor": infer(client, body + b"x", **header),
        "bytes of data, of which": infer(client, body[:-1], **header),
        "must be a number of bytes": infer(client, body, **{JSON_LENGTH: "-1"}),
        "999 bytes; the body has": infer(client, body, **{JSON_LENGTH: "999"}),
        "it is truncated": infer(client, packed[:-5], **gzipped),
        "it continues after its end": infer(client, packed + b"x", **gzipped),
        "not valid gzip": infer(client, body, **gzipped),
    }
    for expected, answer in refusals.items():
        assert answer.status_code == 400
        assert expected in answer.json()["error"]


def test_a_timeout_is_in_microseconds(client: APIClient, busy: InferenceWorker) -> None:
    answer = infer(client, {"inputs": [TEXT], "parameters": {"timeout": 50_000}})
    assert (answer.status_code, answer.json()) == (504, {"error": "The request timed out after 0.05 s."})
