"""Errors as the OpenAI conventions have them: the product's own shape, with their words for what their
clients act upon, and 400 for whatever is wrong with the request.

Standard library only, as the errors themselves.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from inference.openai.lists import BATCH, FINE_TUNING, written_id
from inference.openai.serializers import OpenAiErrorSerializer
from tenants.accounts.api.access import TenantView
from tenants.base.errors import ErrorCode, HmiError

PREFIX: Final = "/v1/"


BAD_REQUEST: Final = 400


SERVER_ERRORS: Final = 500


THEIR_400: Final = frozenset({422, 460})
"""They have neither."""


CODES: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNAUTHENTICATED: "invalid_api_key",
    ErrorCode.RATE_LIMITED: "rate_limit_exceeded",
    ErrorCode.QUOTA_EXCEEDED: "insufficient_quota",
}
"""Where they have a word of their own; else it is the product's."""


DEPENDENTS: Final = {"batch": ("batch", BATCH), "finetuning": ("fine_tuning.job", FINE_TUNING)}
"""What may stand in the way, by the product's word for it: what they call it, and how its id begins."""


def speaks_openai(path: str) -> bool:
    """Whether whoever asks at this address expects these conventions."""
    return f"{path}/".startswith(PREFIX)


def openai_status(error: HmiError) -> int:
    """The HTTP status of the error."""
    return BAD_REQUEST if error.status in THEIR_400 else error.status


def openai_error(error: HmiError) -> dict[str, Any]:
    """The JSON value of the error."""
    told: dict[str, Any] = error.to_json()["error"]
    if "dependents" in told.get("details", {}):
        listed = [_dependent(one) for one in told["details"]["dependents"]]
        told |= {"details": told["details"] | {"dependents": listed}}
    return {"error": told | {"type": _type(error), "code": openai_code(error)}}


def openai_code(error: HmiError) -> str:
    """The code of the error."""
    if error.code is ErrorCode.NOT_FOUND and error.param == "model":
        return "model_not_found"
    return CODES.get(error.code, str(error.code))


def _dependent(told: Mapping[str, Any]) -> dict[str, Any]:
    """With an id that can be asked for here, if there is one."""
    if told["type"] not in DEPENDENTS:
        return dict(told)
    kind, prefix = DEPENDENTS[told["type"]]
    return {**told, "type": kind, "id": written_id(prefix, UUID(told["id"]))}


def _type(error: HmiError) -> str:
    if error.code is ErrorCode.QUOTA_EXCEEDED:
        return "insufficient_quota"
    if error.code is ErrorCode.RATE_LIMITED:
        return "tokens" if (error.details or {}).get("limit") == "tokens" else "requests"
    return "server_error" if error.status >= SERVER_ERRORS else "invalid_request_error"


class PermissiveNegotiation(DefaultContentNegotiation):
    """Their clients ask for ``application/binary`` where they fetch a file; who asks gets what there is."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The first one."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class OpenAiView(TenantView):
    """In a tenant, its lists in their parts (`lists`), its errors in their shape (`errors`)."""

    content_negotiation_class: Any = PermissiveNegotiation
    pagination_class = None  # type: ignore[assignment]  # theirs


def errors(*statuses: int) -> dict[int, Any]:
    """How these stand in the OpenAPI description; 401, 403, 404, 429 and 503 may come from everywhere, 415
    from where a body may be too large (413)."""
    of_bodies = {415} if 413 in statuses else set()
    return dict.fromkeys(sorted({401, 403, 404, 429, 500, 503, *of_bodies, *statuses}), OpenAiErrorSerializer)
