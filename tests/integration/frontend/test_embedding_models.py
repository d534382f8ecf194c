"""The pages of a model that only gives embeddings."""

from pathlib import Path

import pytest
from django.test import Client

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
    "api/?model=vectors",
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


def test_the_playground_names_the_address_of_embeddings(owner: Client, vectors: None) -> None:
    form = {"model": "vectors@default", "text": "A text.", "quality": ""}
    page = owner.post("/t/acme/playground/send/", form).content.decode()
    assert "vectors only gives embeddings. Use /v1/embeddings." in page
    assert "client.embeddings.create" in page


def test_datasets_cannot_be_for_embeddings(owner: Client, world: World) -> None:
    assert 'value="embedding"' not in owner.get("/t/acme/data/datasets/new/").content.decode()
