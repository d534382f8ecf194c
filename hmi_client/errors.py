"""What can go wrong, as exceptions: one class for each ``type`` of the API's error envelope."""

from http import HTTPStatus
from typing import Any

import httpx


class HmiError(Exception):
    """Whatever this package raises; the message says what was wrong and what to do."""


class ConnectionFailed(HmiError):
    """The server did not answer: it is not there, or the connection broke."""


class ApiError(HmiError):
    """The server refused. ``code`` is one word that programs can act upon, ``param`` the offending field.

    ``retry_after`` is in seconds; ``request_id`` finds the request in the server's log.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        type: str,  # noqa: A002 - the envelope's word
        param: str | None = None,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{message} ({code}{f' at {param}' if param else ''})")
        self.message = message
        self.status = status
        self.code = code
        self.type = type
        self.param = param
        self.details = details or {}
        self.retry_after = retry_after
        self.request_id = request_id

    def to_json(self) -> dict[str, Any]:
        """The envelope it came in."""
        error = {"type": self.type, "code": self.code, "message": self.message, "param": self.param}
        return {"error": error | ({"details": self.details} if self.details else {})}


class InvalidRequest(ApiError):
    """Something of the request or of a file is wrong."""


class AuthenticationFailed(ApiError):
    """No key, or one that is wrong, revoked or expired."""


class PermissionRefused(ApiError):
    """The key has not the scope, or only a person may do this."""


class NotFound(ApiError):
    """It is not there, or belongs to another tenant."""


class Conflict(ApiError):
    """Not possible in the present state."""


class Gone(ApiError):
    """It was there, and is over."""


class LimitReached(ApiError):
    """A quota, a rate, or a full queue."""


class ServerFailed(ApiError):
    """The server's own fault."""


class Unavailable(ApiError):
    """Nobody can answer at the moment."""


class TimedOut(ApiError):
    """The deadline passed."""


class FilesRefused(HmiError):
    """A check found something wrong with uploaded files. ``row_errors`` are the invalid rows."""

    def __init__(self, error: dict[str, Any], row_errors: list[dict[str, Any]]) -> None:
        super().__init__(str(error.get("message", "The files were refused.")))
        self.code = str(error.get("code", "invalid_field"))
        self.error = error
        self.row_errors = row_errors


class JobEnded(HmiError):
    """A job failed or was cancelled; ``code`` is why."""

    def __init__(self, message: str, *, job: str, code: str) -> None:
        super().__init__(message)
        self.job = job
        self.code = code


_BY_TYPE: dict[str, type[ApiError]] = {
    "invalid_request": InvalidRequest,
    "authentication": AuthenticationFailed,
    "permission": PermissionRefused,
    "not_found": NotFound,
    "conflict": Conflict,
    "gone": Gone,
    "limit": LimitReached,
    "server": ServerFailed,
    "unavailable": Unavailable,
    "timeout": TimedOut,
}
_BY_STATUS: dict[int, str] = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    409: "conflict",
    410: "gone",
    429: "limit",
    502: "unavailable",
    503: "unavailable",
    504: "timeout",
}


def api_error(response: httpx.Response, retry_after: float | None) -> ApiError:
    """The exception that says what an error response says; also of one that a proxy made up."""
    error = _envelope(response)
    status = response.status_code
    fallback = _BY_STATUS.get(
        status, "server" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request"
    )
    kind = str(error.get("type") or fallback)
    return _BY_TYPE.get(kind, _BY_TYPE[fallback])(
        str(error.get("message") or f"The server answered {status} {response.reason_phrase}.".rstrip()),
        status=status,
        code=str(error.get("code") or f"http_{status}"),
        type=kind,
        param=error.get("param"),
        details=error.get("details"),
        retry_after=retry_after,
        request_id=response.headers.get("X-Request-Id"),
    )


def _envelope(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}
