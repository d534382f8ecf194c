"""Rows of API keys."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tenants.accounts.models import ApiKey


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A row of an API key. `state` is active, expired or revoked.

    `before` and `after` are the prefixes of the keys it replaced and was replaced by. `requests` and `tokens`
    are its limits per minute.
    """

    name: str
    prefix: str
    scopes: list[str]
    requests: int | None
    tokens: int | None
    state: str
    created: datetime
    maker: str
    maker_left: bool
    expires: datetime | None
    ended: datetime | None
    last_used: datetime | None
    before: str
    after: str


def key_rows(keys: Iterable[ApiKey]) -> list[KeyRow]:
    """Return the rows of keys from `api_keys_of`, in the given order."""
    return [_row(key) for key in keys]


def _row(key: ApiKey) -> KeyRow:
    state, maker = _state(key), key.created_by
    ended = {"revoked": key.revoked_at, "expired": key.expiry_date}.get(state)
    after = getattr(key, "replaced_by", None)
    return KeyRow(
        name=key.name,
        prefix=key.prefix,
        scopes=key.scopes,
        requests=key.requests_per_minute,
        tokens=key.tokens_per_minute,
        state=state,
        created=key.created,
        maker=maker.get_username() if maker else "",
        maker_left=maker is not None and not getattr(key, "creator_is_member", True),
        expires=key.expiry_date,
        ended=ended,
        last_used=key.last_used_at,
        before=key.replaces_id or "",
        after=after.prefix if after else "",
    )


def _state(key: ApiKey) -> str:
    if key.revoked:
        return "revoked"
    return "expired" if key.has_expired else "active"
