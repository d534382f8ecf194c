"""The client's exceptions, one class for each ``type`` of the API's errors."""

from http import HTTPStatus
from typing import Any

import httpx

from hmi_client.responses import Job


class HmiError(Exception):
    """Base class of all errors of this package."""


class ConnectionFailed(HmiError):
    """The server cannot be reached, or the connection broke."""


class ApiError(HmiError):
    """The server returned an error. ``code`` is machine-readable, ``param`` names the invalid field.

    ``retry_after`` is in seconds; ``request_id`` finds the request in the server's log.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        type: str,  # noqa: A002 - the API's name
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
        """The error in the API's JSON format."""
        error = {"type": self.type, "code": self.code, "message": self.message, "param": self.param}
        return {"error": error | ({"details": self.details} if self.details else {})}


class InvalidRequest(ApiError):
    """The request or a file is invalid."""


class AuthenticationFailed(ApiError):
    """The API key is missing, wrong, revoked or expired."""


def unauthenticated(message: str) -> AuthenticationFailed:
    """The error of a key that no server needs to see."""
    return AuthenticationFailed(message, status=401, code="unauthenticated", type="authentication")


class PermissionDenied(ApiError):
    """The key lacks the scope, or the operation is not available to API keys."""


class NotFound(ApiError):
    """The object does not exist, or belongs to another tenant."""


class Conflict(ApiError):
    """The operation is not possible in the current state."""


class Gone(ApiError):
    """The object existed and has expired or was deleted."""


class LimitExceeded(ApiError):
    """A quota or rate limit is exceeded, or the queue is full."""


class ServerError(ApiError):
    """The server failed."""


class Unavailable(ApiError):
    """The service is temporarily unavailable."""


class TimedOut(ApiError):
    """The request exceeded its deadline."""


class FilesRejected(HmiError):
    """Uploaded files failed their check. ``row_errors`` lists the bad rows."""

    def __init__(self, error: dict[str, Any], row_errors: list[dict[str, Any]]) -> None:
        super().__init__(str(error.get("message", "The files were rejected.")))
        self.code = str(error.get("code", "invalid_field"))
        self.error = error
        self.row_errors = row_errors


class JobFailed(HmiError):
    """A job or batch failed or was canceled. ``code`` is the reason."""

    def __init__(self, message: str, *, job: str, code: str) -> None:
        super().__init__(message)
        self.job = job
        self.code = code

    @classmethod
    def of(cls, job: Job) -> "JobFailed":
        """The error of a job that did not succeed."""
        message = job.error_message or f"The job {job.kind} was {job.state}."
        return cls(message, job=job.id, code=job.error_code or job.state)


_BY_TYPE: dict[str, type[ApiError]] = {
    "invalid_request": InvalidRequest,
    "authentication": AuthenticationFailed,
    "permission": PermissionDenied,
    "not_found": NotFound,
    "conflict": Conflict,
    "gone": Gone,
    "limit": LimitExceeded,
    "server": ServerError,
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
    """The exception for an error response, also for one that a proxy generated."""
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


_BY_CODE: dict[str, str] = {
    "cancelled": "conflict",
    "deadline_exceeded": "timeout",
    "worker_unavailable": "unavailable",
}
"""The type of errors that end a stream, whose own ``type`` is one of OpenAI's."""


def stream_error(error: dict[str, Any], request_id: str | None) -> ApiError:
    """The exception for an error that ends a stream, whose status was that of a success."""
    code = str(error.get("code"))
    fallback = "invalid_request" if error.get("type") == "invalid_request_error" else "server"
    return _BY_TYPE[_BY_CODE.get(code, fallback)](
        str(error.get("message")),
        status=HTTPStatus.OK,
        code=code,
        type=str(error.get("type")),
        param=error.get("param"),
        details=error.get("details"),
        request_id=request_id,
    )


def _envelope(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}
