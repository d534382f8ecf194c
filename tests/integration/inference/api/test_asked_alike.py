"""What every address that asks a model does alike, whatever the shape of its bodies."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.accounts.models import User
from tests.integration.inference.api.conftest import Served

TEXT = {"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["x"]}
ADDRESSES: dict[str, dict[str, Any]] = {
    "/api/v1/infer": {"model": "acme/unborn", "inputs": ["x"]},
    "/v1/embeddings": {"model": "acme/unborn", "input": ["x"]},
    "/v2/models/acme/unborn/infer": {"inputs": [TEXT]},
}


def post(path: str, user: User | None = None, **headers: str) -> Any:
    """The answer to a request for a model that is not ready."""
    client = APIClient()
    if user:
        client.force_login(user)
    return client.post(path, ADDRESSES[path], format="json", headers=headers)


@pytest.mark.parametrize("path", ADDRESSES)
def test_names_are_taken_and_limits_told_at_every_address(served: Served, viewer: User, path: str) -> None:
    asked = post(path, viewer, **{"X-Request-Id": "mine"})
    assert (asked.status_code, asked["X-Request-Id"]) == (409, "mine")
    assert {"x-ratelimit-limit-tokens", "x-ratelimit-limit-requests"} <= set(asked.headers)
    misnamed = post(path, viewer, **{"X-Request-Id": "no name!"})
    assert misnamed.status_code == 409
    assert len(misnamed["X-Request-Id"]) == 32
    assert post(path).status_code == 401
    assert post(path, Authorization=f"Bearer {served.manage_key}").status_code == 403
