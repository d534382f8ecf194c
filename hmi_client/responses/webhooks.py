"""Webhooks and what is sent to them."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that gets events. ``secret``: only where it was just made."""

    id: str
    url: str
    kinds: list[str] = field(default_factory=list)
    description: str = ""
    enabled: bool = True
    disabled_at: str | None = None
    disabled_reason: str = ""
    failing_since: str | None = None
    previous_until: str | None = None
    created_by: str | None = None
    created_at: str = ""
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that is sent to a webhook. ``state`` is waiting, delivered or failed."""

    id: str
    event_id: str
    kind: str
    state: str
    attempts: int = 0
    next_attempt_at: str | None = None
    created_at: str = ""
    finished_at: str | None = None
    attempt_log: list[Json] = field(default_factory=list)
    payload: Json = field(default_factory=dict)
