"""The pages of a model that only gives embeddings."""

import re
from array import array
from base64 import b64encode
from pathlib import Path

import pytest
from django.test import Client

from frontend.presenters.playground import embedding_of
from tests.e2e.world import World
from tests.integration.jobs.world import ready_embeddings

PAGES = (
    "",
    "models/",
    "models/?task=embedding",
    "models/vectors/",
    "models/vectors/?part=Evaluation",
    "models/vectors/versions/1/",
    "models/vectors/versions/1/answers/",
    "models/vectors/update/",
    "tree/",
    "playground/?model=vectors@default",
    "keys/?model=vectors",
    "batches/",
)


@pytest.fixture
def vectors(world: World, tmp_path: Path) -> None:
    ready_embeddings(world.root, world.tenant, tmp_path, name="vectors")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_a_model_without_labels_and_data(owner: Client, vectors: None, page: str) -> None:
    shown = owner.get(f"/t/acme/{page}")
    assert shown.status_code == 200
    assert "0 labels" not in shown.content.decode()


def test_its_page_calls_it_by_the_address_of_embeddings(owner: Client, vectors: None) -> None:
    page = owner.get("/t/acme/models/vectors/").content.decode()
    assert "client.embeddings.create" in page
    assert "/api/v1/infer" not in page
    assert "Evaluate on another dataset" not in page


def test_the_playground_embeds_one_text_or_two(owner: Client, vectors: None) -> None:
    page = owner.get("/t/acme/playground/?model=vectors@default").content.decode()
    assert 'name="quality"' not in page
    assert re.search(r'<textarea name="second"(?! required)[^>]*>', page)
    form = {"model": "vectors@default", "text": "A text.", "second": "Another."}
    page = owner.post("/t/acme/playground/send/", form).content.decode()
    assert "input=[&#x27;A text.&#x27;, &#x27;Another.&#x27;]" in page
    assert "only gives embeddings" not in page


def test_an_answer_has_the_vector_and_the_similarity_of_two_texts() -> None:
    vectors = [b64encode(array("f", numbers).tobytes()).decode() for numbers in ([3.0, 4.0], [4.0, 3.0])]
    reply = {
        "model": {"name": "bert", "version": 1},
        "results": [{"embedding": vector, "truncated": False} for vector in vectors],
        "timings_ms": {"total": 5.0, "queue": 1.0, "retrieval": 1.0, "adapter_load": 1.0, "compute": 1.0},
    }
    answer = embedding_of(reply)
    assert (answer.model, answer.dimensions, answer.numbers) == ("bert v1", "2", "3.0000, 4.0000")
    assert (answer.vector, answer.similarity) == ("[3.0, 4.0]", "0.960")


def test_datasets_cannot_be_for_embeddings(owner: Client, world: World) -> None:
    assert 'value="embedding"' not in owner.get("/t/acme/data/datasets/new/").content.decode()
