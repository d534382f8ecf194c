"""Tenants, API keys and the request log."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. ``role`` is the caller's role in it."""

    slug: str
    name: str
    role: str | None = None
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """A tenant's usage and quota."""

    slug: str
    quota: Json = field(default_factory=dict)
    rates: Json = field(default_factory=dict)
    storage_used_bytes: int = 0
    requests_today: int = 0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key. ``key`` is its plaintext, only where it was just made."""

    prefix: str
    name: str
    scopes: list[str] = field(default_factory=list)
    created_by: str | None = None
    created_at: str = ""
    expires_at: str | None = None
    last_used_at: str | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    revoked: bool = False
    revoked_at: str | None = None
    replaces: str | None = None
    replaced_by: str | None = None
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """An infer request in the tenant's log. ``outcome`` is answered, refused or failed, ``error_code`` None
    if it was answered. ``param`` and ``message`` are the error's, ``reference`` is the model as it was asked
    for. ``key`` is empty for the browser, ``texts`` None unless the tenant keeps them. ``levels`` counts
    texts by level."""

    id: int
    at: str
    request_id: str
    api: str = ""
    model: str = ""
    version: int | None = None
    key: str = ""
    status: int = 0
    outcome: str = ""
    error_code: str | None = None
    param: str = ""
    message: str = ""
    reference: str = ""
    latency_ms: float | None = None
    level: str = ""
    inputs: int = 0
    tokens: int = 0
    generated_tokens: int = 0
    levels: Json = field(default_factory=dict)
    timings_ms: Json | None = None
    texts: tuple[str, ...] | None = None
