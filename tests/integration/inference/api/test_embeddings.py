"""Embeddings: from texts over HTTP to vectors, through a real worker."""

import math
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from rest_framework.test import APIClient

from tests.integration.inference.api.conftest import Served
from tests.processes import InferenceWorker
from tests.unit.sentence_files import LIMIT, WIDTH

TEXTS = ["a good stone in the river", "größer 😀"]


@pytest.fixture
def embed(db: None, served: Served) -> Any:
    """Asks for embeddings with the tenant's key."""

    def post(**body: Any) -> Any:
        client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
        return client.post("/v1/embeddings", {"model": "acme/mood", "input": TEXTS, **body}, format="json")

    return post


def test_texts_become_vectors_of_length_one_in_either_encoding(embed: Any, worker: InferenceWorker) -> None:
    told = embed()
    answer = told.json()
    assert (told["x-hmi-model"], len(told["x-hmi-digest"])) == ("acme/mood:1", 64)
    assert told["x-hmi-number-format"] == "float32"
    assert "x-hmi-plot-hit-ratio" not in told, "by default they are computed"
    assert "compute;dur=" in told["Server-Timing"]
    assert (answer["object"], answer["model"]) == ("list", "acme/mood:1")
    assert [(one["object"], one["index"]) for one in answer["data"]] == [("embedding", 0), ("embedding", 1)]
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 2
    first, second = (one["embedding"] for one in answer["data"])
    assert math.hypot(*first) == pytest.approx(1, abs=1e-5)
    assert first != second

    packed = embed(encoding_format="base64", input=TEXTS[0]).json()["data"]
    assert np.frombuffer(b64decode(packed[0]["embedding"]), "<f4") == pytest.approx(first, abs=1e-4)
    (shorter,) = embed(input=TEXTS[0], dimensions=4).json()["data"]
    assert shorter["embedding"] == pytest.approx([x / math.hypot(*first[:4]) for x in first[:4]], abs=1e-4)
    # One that tags reads a text like any other, and sees it with its own PET.
    (tagger,) = embed(model="places", input=TEXTS[0]).json()["data"]
    assert tagger["embedding"] != pytest.approx(first, abs=1e-4)


def test_the_prompt_of_the_root_is_put_before_each_text(embed: Any, worker: InferenceWorker) -> None:
    def vectors(texts: list[str], **body: Any) -> Any:
        answer = embed(model="vectors", input=texts, **body).json()
        return [one["embedding"] for one in answer["data"]]

    by_default, by_name = vectors(TEXTS), vectors(TEXTS, prompt_name="query")
    written = vectors([f"query: {text}" for text in TEXTS], prompt_name="passage")
    bare = vectors(TEXTS, prompt_name="passage", normalize=True)
    for default, named, spelt_out, other in zip(by_default, by_name, written, bare, strict=True):
        assert len(default) == WIDTH
        assert default == pytest.approx(named, abs=1e-4)
        assert default == pytest.approx(spelt_out, abs=1e-4)
        assert default != pytest.approx(other, abs=1e-3)
    cut = [f"{text} {'stone ' * LIMIT}" for text in TEXTS[:1]]
    assert vectors([f"{cut[0]} river"])[0] == pytest.approx(vectors(cut)[0], abs=1e-4)


def test_an_unknown_prompt_is_refused_with_the_names_of_those_there_are(embed: Any) -> None:
    error = embed(prompt_name="document").json()["error"]
    assert (error["code"], error["param"]) == ("invalid_field", "prompt_name")
    assert error["message"] == "The model's root has no prompt 'document'. Its prompts: passage, query."


@pytest.mark.parametrize(
    ("url", "body"),
    [
        ("/api/v1/infer", {"model": "vectors", "inputs": TEXTS}),
        ("/v1/chat/completions", {"model": "vectors", "messages": [{"role": "user", "content": "a"}]}),
        ("/v2/models/vectors/infer", {"inputs": []}),
    ],
)
def test_what_a_model_of_embeddings_cannot_do_names_their_address(
    db: None, served: Served, url: str, body: dict[str, Any]
) -> None:
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    assert "/v1/embeddings" in client.post(url, body, format="json").content.decode()


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"input": [1, 2, 3]}, 400, "invalid_field", "input"),
        ({"input": [[1, 2], [3]]}, 400, "invalid_field", "input"),
        ({"input": {"text": "a"}}, 400, "invalid_field", "input[0]"),
        ({"input": ["a", " "]}, 400, "empty_text", "input[1]"),
        ({"model": "acme/unborn"}, 409, "model_not_ready", "model"),
        ({"dimensions": 10**6}, 400, "invalid_field", "dimensions"),
        ({"encoding_format": "int8"}, 400, "invalid_field", "encoding_format"),
        ({"prompt_name": 1}, 400, "invalid_field", "prompt_name"),
        ({"normalize": False}, 400, "unsupported_parameter", "normalize"),
        ({"nonsense": 1}, 400, "invalid_field", "nonsense"),
    ],
)
def test_what_cannot_be_embedded_is_refused_with_its_place(
    embed: Any, worker: InferenceWorker, body: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    refused = embed(**body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (status, code, param)
