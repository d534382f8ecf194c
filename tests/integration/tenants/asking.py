"""Uploads of the tenant acme over HTTP."""

from typing import Any

CORPORA = "/api/v1/tenants/acme/corpora"
DATASETS = "/api/v1/tenants/acme/datasets"


def post(client: Any, address: str, **fields: Any) -> Any:
    """Send a form."""
    return client.post(address, fields, format="multipart")
