"""Entries of the request log, as rows of the page and of a CSV file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from frontend.forms.usage import WEB_UI
from frontend.presenters.usage import read_and_generated
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode
from tenants.base.plurals import counted
from tenants.usage.models import LoggedRequest, RequestStatus
from tenants.usage.request_selectors import Omitted

LEVEL_LABELS: Final[Mapping[str, str]] = {"table": "Fast", "cascade": "Balanced", "full": "Exact"}
TIME_LABELS: Final = (
    ("queue", "Queue"),
    ("retrieval", "Retrieval"),
    ("adapter_load", "Adapter load"),
    ("compute", "Compute"),
    ("total", "Total"),
)
CAUSES: Final[Mapping[str, str]] = {
    ErrorCode.INVALID_JSON: "The body was not valid JSON.",
    ErrorCode.INVALID_FIELD: "A value had the wrong type or was out of range.",
    ErrorCode.MISSING_FIELD: "A required field was missing.",
    ErrorCode.EMPTY_TEXT: "A text was empty.",
    ErrorCode.TOO_MANY_INPUTS: "There were more inputs than one request may have. Send several requests.",
    ErrorCode.BODY_TOO_LARGE: "The body was too large. Send fewer inputs at once.",
    ErrorCode.UNAUTHENTICATED: "The key was missing, revoked or expired.",
    ErrorCode.FORBIDDEN: "The key may not use models. Choose one with the scope infer.",
    ErrorCode.NOT_FOUND: "There is no such model, version or alias. Check the spelling.",
    ErrorCode.MODEL_NOT_READY: "The version was still in training, or its training failed.",
    ErrorCode.CANCELLED: "The client canceled the request.",
    ErrorCode.UNSUPPORTED_PARAMETER: "The request used a parameter that HMI does not support.",
    ErrorCode.QUOTA_EXCEEDED: "The tenant's quota was used up. Daily quotas reset at midnight UTC.",
    ErrorCode.RATE_LIMITED: "There were too many requests or tokens in a minute. Wait for Retry-After.",
    ErrorCode.QUEUE_FULL: "The queue was full. Send again after Retry-After.",
    ErrorCode.DEADLINE_EXCEEDED: "There was no answer in time. Send fewer inputs, or a longer deadline.",
    ErrorCode.WORKER_UNAVAILABLE: "No inference worker served the model. Send again later.",
    ErrorCode.DATABASE_UNAVAILABLE: "The database was unavailable. Send again later.",
    ErrorCode.INFERENCE_FAILED: "The inference worker failed. If it happens again, report the request ID.",
    ErrorCode.INTERNAL: "The server failed. Report the request ID to your administrator.",
}
"""Why requests are refused or fail, for entries without a message of their own."""
OTHER_CAUSES: Final[Mapping[RequestStatus, str]] = {
    RequestStatus.ANSWERED: "",
    RequestStatus.REFUSED: "The request was refused.",
    RequestStatus.FAILED: "The server failed. Report the request ID to your administrator.",
}
"""Those of all other error codes."""
CORRECT_AS_SENT: Final = frozenset({401, 403, 409, 429})
"""Refused for who sent it or when, not for what it says."""
CSV_COLUMNS: Final = (
    *("at", "request_id", "api", "model", "version", "key", "status", "error_code", "latency_ms", "level"),
    *("inputs", "tokens", "generated_tokens", "outcome", "param", "message", "reference"),
)


@dataclass(frozen=True, slots=True)
class RequestRow:
    """An entry with formatted figures. `cause` says why it was refused or failed; `correctable` whether a
    change to it would help; `facts` are details."""

    entry: LoggedRequest
    cause: str
    correctable: bool
    latency: str
    level: str
    token_note: str
    facts: list[tuple[str, str]]


def request_row(request: LoggedRequest) -> RequestRow:
    """Return the row of an entry on the page."""
    return RequestRow(
        request,
        cause=_cause(request),
        correctable=may_be_corrected(request),
        latency="–" if request.latency_ms is None else _milliseconds(request.latency_ms),
        level=LEVEL_LABELS.get(request.level, "–"),
        token_note=read_and_generated(request.tokens, request.generated_tokens),
        facts=_facts(request),
    )


def hint_of(request: LoggedRequest) -> str:
    """Return what to do about a refused or failed request, where its own message does not say all."""
    if not request.message or may_be_corrected(request):
        return ""
    return CAUSES.get(request.error_code, "")


def may_be_corrected(request: LoggedRequest) -> bool:
    """Whether the same request could be answered after a change to it."""
    return request.outcome is RequestStatus.REFUSED and request.status not in CORRECT_AS_SENT


def request_line(request: LoggedRequest) -> list[object]:
    """Return the row of an entry in the CSV file."""
    return [
        request.at.isoformat(timespec="milliseconds"),
        request.request_id,
        request.api,
        request.model_name,
        request.version or "",
        request.key_prefix,
        request.status,
        request.error_code,
        "" if request.latency_ms is None else request.latency_ms,
        request.level,
        request.inputs,
        request.tokens,
        request.generated_tokens,
        request.outcome.value,
        request.param,
        request.message,
        request.reference,
    ]


def omitted_note(omitted: Omitted) -> str:
    """Return what the page says of requests that are not in the log; nothing if all are."""
    if not omitted.requests:
        return ""
    return (
        f"This is a sample. {counted(omitted.requests, 'more request')} came in too fast to be logged. "
        f"{omitted.refused:,} of them were refused, and {omitted.failed:,} failed."
    )


def requests_url(tenant: Tenant, outcome: RequestStatus, since: date) -> str:
    """Return the URL of the log with the requests that ended so since the beginning of a day."""
    query = urlencode({"status": outcome.value, "since": f"{since:%Y-%m-%d}T00:00"})
    return f"{reverse('frontend:requests', args=[tenant.slug])}?{query}"


def _cause(request: LoggedRequest) -> str:
    known = CAUSES.get(request.error_code) or OTHER_CAUSES[request.outcome]
    cause = request.message or known
    return f"{request.param}: {cause}" if request.param and request.message else cause


def _facts(request: LoggedRequest) -> list[tuple[str, str]]:
    levels, timings = request.details.get("levels") or {}, request.details.get("timings_ms") or {}
    facts = [
        ("API", request.get_api_display()),
        ("Key", f"{request.key_prefix}…" if request.key_prefix else WEB_UI),
        ("Asked for", request.reference),
        ("Field", request.param),
        ("HTTP status", str(request.status)),
        ("Inputs", f"{request.inputs:,}"),
        (
            "Texts by level",
            ", ".join(f"{label} {levels[name]:,}" for name, label in LEVEL_LABELS.items() if name in levels),
        ),
        *((label, _milliseconds(timings[name])) for name, label in TIME_LABELS if name in timings),
    ]
    return [(name, value) for name, value in facts if value]


def _milliseconds(number: float) -> str:
    return f"{number:,.0f} ms" if number >= 100 else f"{number:.1f} ms"
