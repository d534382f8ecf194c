"""API keys as a page shows them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tenants.models import ApiKey


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One line of the list of keys; `state` is active, expired or revoked."""

    name: str
    prefix: str
    scopes: list[str]
    state: str
    created: datetime
    expires: datetime | None
    last_used: datetime | None


def key_rows(keys: Iterable[ApiKey]) -> list[KeyRow]:
    """The rows of the list, in the order given."""
    return [
        KeyRow(key.name, key.prefix, key.scopes, _state(key), key.created, key.expiry_date, key.last_used_at)
        for key in keys
    ]


def _state(key: ApiKey) -> str:
    if key.revoked:
        return "revoked"
    return "expired" if key.has_expired else "active"
