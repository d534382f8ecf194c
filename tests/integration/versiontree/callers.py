"""Clients of the manage API, and what an error of it says."""

from typing import Any

from rest_framework.test import APIClient

from tenants.accounts.models import User
from tenants.accounts.services.api_keys import api_key_create
from tests.integration.versiontree.tree_factory import TenantFixture

V1 = "/api/v1"


def with_key(home: TenantFixture, *scopes: str) -> APIClient:
    _, plaintext = api_key_create(tenant=home.tenant, name="k", scopes=scopes, created_by=home.owner)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plaintext}")
    return client


def signed_in(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def error(answer: Any) -> tuple[int, str, str | None]:
    body = answer.json()["error"]
    return answer.status_code, body["code"], body["param"]


def body_of(answer: Any) -> bytes:
    """The whole of a download."""
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content)
