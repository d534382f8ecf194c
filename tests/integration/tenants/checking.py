"""Asking for checks of uploads."""

from typing import Any

from tests.integration.tenants.tus import CHECKS


def ask(client: Any, **fields: Any) -> Any:
    """Ask for a check."""
    return client.post(CHECKS, fields, format="json")
