"""What a JSON body may take of the web server's memory, whatever stands in it."""

import gc
import json
import tracemalloc
import zlib
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from rest_framework.test import APIClient

from inference.api import parsers
from tests.integration.world import World, make_world

MEBIBYTE = 1024**2
MANAGE = "/api/v1/tenants/acme/models"
INFER = "/api/v1/infer?tenant=acme"
EMBEDDINGS = "/v1/embeddings?tenant=acme"
OIP = "/v2/models/acme/mood/infer"
FINE_TUNING = "/v1/fine_tuning/jobs?tenant=acme"
JSON = "application/json"
AMPLIFIERS = {
    "objects": b"{},",
    "lists": b"[],",
    "texts": b'"",',
    "escaped texts": b'"\\"\\\\",',
    "numbers": b"9,",
    "objects in objects": b'{"a":{}},',
    "texts in lists": b'["\\u00e9"],',
}
MOST_GROWTH = 6.0
"""Times the body: its copies on the way, here also those of the test's client, and what it is read into."""


@pytest.fixture
def world(db: None, redis_client: Any, artifact_root: Any, upload_root: Any) -> World:
    return make_world()


@pytest.fixture
def owner(world: World) -> APIClient:
    client = world.client(world.owner)
    client.post(MANAGE, "{}", content_type=JSON)  # what is loaded once is no one's growth
    client.post(INFER, "{}", content_type=JSON)
    return client


def listed(piece: bytes, size: int) -> bytes:
    """A JSON list that repeats the piece up to so many bytes."""
    return b"[" + piece * (size // len(piece) - 1) + b"0]"


def growth(client: APIClient, path: str, body: bytes, **headers: str) -> tuple[float, Any]:
    """By how many times the body's size memory grew at most while it was answered, and the answer."""
    gc.collect()
    tracemalloc.start()
    try:
        answer = client.post(path, body, content_type=JSON, headers=headers)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak / len(body), answer


@pytest.mark.parametrize(
    ("path", "piece"),
    [
        *((INFER, piece) for piece in AMPLIFIERS.values()),
        *((path, AMPLIFIERS["objects"]) for path in (EMBEDDINGS, OIP)),
    ],
)
def test_a_large_body_of_nothing_but_values_is_refused_unread(
    owner: APIClient, path: str, piece: bytes
) -> None:
    times, answer = growth(owner, path, listed(piece, 16 * MEBIBYTE - 100))
    assert answer.status_code == 413
    assert "values" in answer.content.decode()
    assert times < MOST_GROWTH


@pytest.mark.parametrize("piece", AMPLIFIERS.values(), ids=AMPLIFIERS)
def test_so_is_one_of_a_mebibyte_where_things_are_managed(owner: APIClient, piece: bytes) -> None:
    for path in (MANAGE, FINE_TUNING):
        times, answer = growth(owner, path, listed(piece, MEBIBYTE - 100))
        assert answer.status_code in {400, 413, 422}
        assert times < 30


def test_compressed_body_is_limited_by_its_unpacked_size(owner: APIClient) -> None:
    plain = listed(b"{},", 16 * MEBIBYTE - 100)
    body = zlib.compress(plain)
    times, answer = growth(owner, OIP, body, **{"Content-Encoding": "deflate"})
    assert answer.status_code == 413
    assert times * len(body) < MOST_GROWTH * len(plain)


def test_a_body_beyond_a_mebibyte_is_no_order(owner: APIClient) -> None:
    body = json.dumps({"name": "x" * MEBIBYTE}).encode()
    for path in (MANAGE, FINE_TUNING):
        answer = owner.post(path, body, content_type=JSON)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        assert answer.json()["error"]["details"] == {"size": len(body), "limit": MEBIBYTE}


def test_long_texts_full_of_marks_are_no_values(owner: APIClient) -> None:
    """Those between quotes do not count, also where quotes are escaped."""
    text = '{[,\\"' * 250_000
    answer = owner.post(
        INFER, json.dumps({"model": "mood", "inputs": [text, text + "\\"]}), content_type=JSON
    )
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "model")


def test_a_bad_character_below_a_long_name_costs_no_more(owner: APIClient) -> None:
    name = b"n" * (MEBIBYTE // 2)
    body = b'{"%s": [%s"\\u0000"]}' % (name, b'"",' * 90_000)
    times, answer = growth(owner, MANAGE, body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid_encoding")
    assert error["param"].endswith(".90000")
    assert len(error["param"]) < 100
    assert times < 60


# --- bodies at the same time ------------------------------------------------------------------------------


def test_large_bodies_in_progress_are_bounded_together(owner: APIClient) -> None:
    large = json.dumps({"model": "mood", "inputs": ["x" * 1_500_000]})

    def hold_all_and_post(_: HttpRequest) -> HttpResponse:
        parsers.hold(parsers.most_bytes())
        answers.append(owner.post(INFER, large, content_type=JSON))
        answers.append(owner.post(INFER, {"model": "mood", "inputs": ["x"]}, format="json"))
        return HttpResponse()

    answers: list[Any] = []
    parsers.LargeBodies(hold_all_and_post)(HttpRequest())
    refused, small = answers
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused["Retry-After"]) >= 1
    assert small.json()["error"]["code"] == "not_found"
    for _ in range(100):  # each gives back what it held
        assert owner.post(INFER, large, content_type=JSON).json()["error"]["code"] == "not_found"
