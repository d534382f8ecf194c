"""Two tenants with keys, a root and a domain to build on, over HTTP as the OpenAI conventions have it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from tenants.accounts.models import Tenant
from tenants.accounts.services.api_keys import api_key_create
from tests.integration.hmi_client.conftest import product as product
from tests.integration.hmi_client.conftest import site as site
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version


class Caller(APIClient):
    """Sends JSON, or forms, below /v1/, with a key."""

    def __init__(self, tenant: Tenant, *scopes: str) -> None:
        key = api_key_create(tenant=tenant, name="key", scopes=list(scopes), created_by=None)[1]
        super().__init__(HTTP_AUTHORIZATION=f"Bearer {key}")
        self.tenant = tenant

    def sends(
        self, content: str, *, name: str = "rows.jsonl", purpose: str = "fine-tune", **more: Any
    ) -> Any:
        """A file."""
        file = SimpleUploadedFile(name, content.encode())
        return self.post("/v1/files", {"file": file, "purpose": purpose, **more}, format="multipart")

    def asks(self, path: str, **body: Any) -> Any:
        """A POST with JSON."""
        return self.post(f"/v1/{path}", body, format="json")


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare and read rows of all tenants; the requests that they send see those of one."""


@pytest.fixture(autouse=True)
def own_places(artifact_root: Path, upload_root: Path, redis_url: str) -> Path:
    """Every test has stores of its own, and a real broker."""
    return upload_root


@pytest.fixture
def acme(db: None) -> TenantFixture:
    return tree_factory.create_tenant("acme")


@pytest.fixture
def globex(db: None) -> TenantFixture:
    return tree_factory.create_tenant("globex")


@pytest.fixture
def root(db: None, tmp_path: Path) -> Version:
    return tree_factory.ready_root(tmp_path)


@pytest.fixture
def batch_line(acme: TenantFixture, root: Version) -> str:
    """A file of one request to a ready model. Its text is empty, as the model has no tokenizer."""
    tree_factory.ready_hplm(root, "mood", acme)
    body = {"model": "mood", "input": ""}
    return json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": body})


@pytest.fixture
def client(acme: TenantFixture) -> Caller:
    """A program of acme's."""
    return Caller(acme.tenant, "manage", "infer")


@pytest.fixture
def stranger(globex: TenantFixture) -> Caller:
    """A program of another tenant's."""
    return Caller(globex.tenant, "manage", "infer")
