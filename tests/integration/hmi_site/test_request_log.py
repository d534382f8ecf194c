"""Which request a line of the web process's log belongs to."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient
from structlog.contextvars import get_contextvars

from inference.logs import formatter
from tests.integration.world import World

Lines = list[dict[str, Any]]
TEXT = "a good stone"


class Log:
    """What is written meanwhile."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(formatter("json"))

    def lines(self, event: str = "") -> Lines:
        said = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in said if line["event"].startswith(event)]


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    logging.getLogger().addHandler(made.handler)
    yield made
    logging.getLogger().removeHandler(made.handler)


def infer(client: APIClient, **body: Any) -> Any:
    return client.post("/api/v1/infer", {"model": "mood", "inputs": [TEXT], **body}, format="json")


def test_what_django_says_of_a_refusal_names_the_request(client: Client, log: Log, db: None) -> None:
    answer = client.get("/nowhere")
    [line] = log.lines("Not Found")
    assert line["request_id"] == answer["X-Request-Id"]
    assert line["code"] == "not_found"


def test_nothing_of_a_request_is_left_for_the_next(world: World, log: Log) -> None:
    first = infer(world.client(key=world.key()[1]))
    assert get_contextvars() == {}
    second = infer(world.client())
    lines = log.lines("infer")
    assert [line["request_id"] for line in lines] == [first["X-Request-Id"], second["X-Request-Id"]]
    assert [line.get("tenant") for line in lines] == ["acme", None]
    assert [line["code"] for line in lines] == ["not_found", "unauthenticated"]


@pytest.mark.parametrize("of", ["owner", "key"])
def test_a_line_names_the_tenant_for_whom_it_was_asked(world: World, log: Log, of: str) -> None:
    client = world.client(world.owner) if of == "owner" else world.client(key=world.key()[1])
    infer(client, model="acme/mood")
    [line] = log.lines("infer")
    assert (line["tenant"], line["status"], line["code"]) == ("acme", 404, "not_found")


def test_a_stranger_s_request_is_not_said_to_be_the_tenant_s(world: World, log: Log) -> None:
    infer(world.client(world.stranger), model="acme/mood")
    [line] = log.lines("infer")
    assert ("tenant" in line, line["status"]) == (False, 404)


@pytest.mark.parametrize("own", ["order-4711", "A_b-9" * 12])
def test_a_caller_s_own_id_is_kept(client: Client, own: str) -> None:
    assert client.get("/health/live", headers={"X-Request-Id": own})["X-Request-Id"] == own


@pytest.mark.parametrize("own", ["", "two words", "x" * 65, "a\x1bb", "ünique"])
def test_an_id_that_is_none_is_replaced(client: Client, own: str) -> None:
    given = client.get("/health/live", headers={"X-Request-Id": own})["X-Request-Id"]
    assert given != own
    assert len(given) == 32
