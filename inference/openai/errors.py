"""The views' base class, and errors in the shape that OpenAI's clients expect.

An error is the product's own JSON with an added ``type``. Its ``code`` is OpenAI's where clients act on it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from inference.openai.ids import BATCH, FINE_TUNING, format_id
from inference.openai.serializers import OpenAiErrorSerializer
from tenants.accounts.api.access import TenantView
from tenants.base.errors import ErrorCode, HmiError

PREFIX: Final = "/v1/"
BAD_REQUEST: Final = 400
SERVER_ERRORS: Final = 500
MAPPED_TO_400: Final = frozenset({422, 460})
"""Statuses that OpenAI does not use."""
CODES: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNAUTHENTICATED: "invalid_api_key",
    ErrorCode.RATE_LIMITED: "rate_limit_exceeded",
    ErrorCode.QUOTA_EXCEEDED: "insufficient_quota",
}
"""OpenAI's codes. The other codes are the product's."""
DEPENDENT_TYPES: Final = {"batch": ("batch", BATCH), "finetuning": ("fine_tuning.job", FINE_TUNING)}
"""The type and the id prefix of an object that prevents a deletion, by the product's type."""


def openai_status(error: HmiError) -> int:
    """The HTTP status of the error."""
    return BAD_REQUEST if error.status in MAPPED_TO_400 else error.status


def openai_error(error: HmiError) -> dict[str, Any]:
    """The JSON body of the error."""
    body: dict[str, Any] = error.to_json()["error"]
    if "dependents" in body.get("details", {}):
        dependents = [_dependent(one) for one in body["details"]["dependents"]]
        body |= {"details": body["details"] | {"dependents": dependents}}
    return {"error": body | {"type": _type(error), "code": openai_code(error)}}


def openai_code(error: HmiError) -> str:
    """The ``code`` of the error."""
    if error.code is ErrorCode.NOT_FOUND and error.param == "model":
        return "model_not_found"
    return CODES.get(error.code, str(error.code))


def _dependent(dependent: Mapping[str, Any]) -> dict[str, Any]:
    """The dependent with an id of this API, if objects of its type have one."""
    if dependent["type"] not in DEPENDENT_TYPES:
        return dict(dependent)
    kind, prefix = DEPENDENT_TYPES[dependent["type"]]
    return {**dependent, "type": kind, "id": format_id(prefix, UUID(dependent["id"]))}


def _type(error: HmiError) -> str:
    if error.code is ErrorCode.QUOTA_EXCEEDED:
        return "insufficient_quota"
    if error.code is ErrorCode.RATE_LIMITED:
        return "tokens" if (error.details or {}).get("limit") == "tokens" else "requests"
    return "server_error" if error.status >= SERVER_ERRORS else "invalid_request_error"


class PermissiveNegotiation(DefaultContentNegotiation):
    """Accepts any ``Accept`` header: OpenAI's clients send ``application/binary`` when they fetch a file."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The first renderer."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class OpenAiView(TenantView):
    """Base of the views: within a tenant, with OpenAI's pagination and errors."""

    content_negotiation_class: Any = PermissiveNegotiation
    pagination_class = None  # type: ignore[assignment]  # see pagination.py


def error_responses(*statuses: int) -> dict[int, Any]:
    """The OpenAPI responses of these error statuses, and of those that every operation has."""
    unsupported_type = {415} if 413 in statuses else set()
    every = {400, 401, 403, 404, 429, 500, 503}
    return dict.fromkeys(sorted({*every, *unsupported_type, *statuses}), OpenAiErrorSerializer)
