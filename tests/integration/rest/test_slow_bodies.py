"""A client may take as long as it likes over a body: no connection to the database waits with it."""

import io
import json
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection
from django.test import RequestFactory

from tests.integration.rest.test_single import hook
from tests.integration.world import make_world


class Coming(io.BytesIO):
    """A body that sees, whenever more of it is asked for, whether a connection is held."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(json.dumps(body).encode())
        self.held: list[bool] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.held.append(connection.connection is not None)
        return super().read(size)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_json_is_read_without_a_connection(transactional_db: None, upload_root: Any, method: str) -> None:
    world = make_world()
    key, one = world.key()[1], hook(world)
    tag = world.client(key=key).get(one)["ETag"]
    body = Coming({"url": "https://example.org/", "kinds": ["job.failed"], "description": "new"})
    asked = RequestFactory().generic(
        method,
        "/api/v1/webhooks" if method == "POST" else one,
        body.getvalue(),
        "application/json",
        headers={"Authorization": f"Bearer {key}", "Idempotency-Key": "once", "If-Match": tag},
    )
    answer: Any = WSGIHandler()(asked.environ | {"wsgi.input": body}, lambda *_: print)
    assert answer.status_code == (201 if method == "POST" else 200)
    assert json.loads(answer.content)["description"] == "new"
    assert body.held
    assert not any(body.held)
