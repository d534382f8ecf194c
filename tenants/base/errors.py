"""Every expected error of the product: an enum of codes, their HTTP statuses, and one JSON shape.

Standard library only, so that each package may raise and render the same errors.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from django.db.models import Model

Row = TypeVar("Row")

MAX_DEPENDENTS_NAMED: Final = 3
MAX_DEPENDENTS_LISTED: Final = 20
INTERNAL_MESSAGE: Final = "Internal server error. Try again. If it fails again, contact your administrator."


class ErrorCode(StrEnum):
    """The machine-readable code of an error."""

    INVALID_JSON = "invalid_json"
    INVALID_FIELD = "invalid_field"
    MISSING_FIELD = "missing_field"
    EMPTY_TEXT = "empty_text"
    TOO_MANY_INPUTS = "too_many_inputs"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    BODY_TRUNCATED = "body_truncated"
    INVALID_LENGTH = "invalid_length"

    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_VERSION = "unsupported_version"
    UNSUPPORTED_TYPE = "unsupported_type"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    NOT_ACCEPTABLE = "not_acceptable"
    UNKNOWN_HOST = "unknown_host"
    CONFLICT = "conflict"
    HAS_DEPENDENTS = "has_dependents"
    LAST_OWNER = "last_owner"
    INVITATION_OVER = "invitation_over"
    MODEL_NOT_READY = "model_not_ready"
    CANCELLED = "cancelled"
    IN_FLIGHT = "in_flight"

    QUOTA_EXCEEDED = "quota_exceeded"
    RATE_LIMITED = "rate_limited"
    QUEUE_FULL = "queue_full"
    LOCKED_OUT = "locked_out"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    WORKER_UNAVAILABLE = "worker_unavailable"
    DATABASE_UNAVAILABLE = "database_unavailable"
    INFERENCE_FAILED = "inference_failed"
    INTERNAL = "internal"

    INVALID_ENCODING = "invalid_encoding"
    EMPTY_FILE = "empty_file"
    FILE_TOO_LARGE = "file_too_large"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    NOT_TEXT = "not_text"
    LINE_TOO_LONG = "line_too_long"
    MALFORMED_ROW = "malformed_row"
    MISSING_COLUMN = "missing_column"
    MIXED_TYPES = "mixed_types"
    INVALID_TAGS = "invalid_tags"
    ONE_LABEL = "one_label"
    TOO_FEW_ROWS = "too_few_rows"
    CORPUS_TOO_SMALL = "corpus_too_small"
    LEAKING_SPLITS = "leaking_splits"

    PICKLED_CHECKPOINT = "pickled_checkpoint"
    UNSUPPORTED_CHECKPOINT = "unsupported_checkpoint"
    CHECKPOINT_NOT_FOUND = "checkpoint_not_found"
    CHECKPOINT_UNAVAILABLE = "checkpoint_unavailable"
    TRAINING_DIVERGED = "training_diverged"
    OUT_OF_DISK = "out_of_disk"
    OUT_OF_MEMORY = "out_of_memory"
    CORRUPT_ARTIFACT = "corrupt_artifact"
    INVALID_ARCHIVE = "invalid_archive"
    MISSING_BRANCH = "missing_branch"

    INVALID_TRANSITION = "invalid_transition"
    JOB_CANCELLED = "job_cancelled"
    JOB_CRASHED = "job_crashed"
    LEASE_LOST = "lease_lost"


_STATUS_OTHER_THAN_422: dict[ErrorCode, int] = {
    ErrorCode.BODY_TOO_LARGE: 413,
    ErrorCode.BODY_TOO_SLOW: 408,
    ErrorCode.BODY_TRUNCATED: 400,
    ErrorCode.INVALID_LENGTH: 400,
    ErrorCode.FILE_TOO_LARGE: 413,
    ErrorCode.CHECKSUM_MISMATCH: 460,  # from the tus protocol
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.UNSUPPORTED_VERSION: 412,
    ErrorCode.UNSUPPORTED_TYPE: 415,
    ErrorCode.NOT_ACCEPTABLE: 406,
    ErrorCode.UNKNOWN_HOST: 400,
    ErrorCode.CONFLICT: 409,
    ErrorCode.HAS_DEPENDENTS: 409,
    ErrorCode.LAST_OWNER: 409,
    ErrorCode.INVITATION_OVER: 410,
    ErrorCode.MODEL_NOT_READY: 409,
    ErrorCode.CANCELLED: 409,
    ErrorCode.IN_FLIGHT: 409,
    ErrorCode.MISSING_BRANCH: 409,
    ErrorCode.INVALID_TRANSITION: 409,
    ErrorCode.QUOTA_EXCEEDED: 429,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.QUEUE_FULL: 429,
    ErrorCode.LOCKED_OUT: 429,
    ErrorCode.DEADLINE_EXCEEDED: 504,
    ErrorCode.WORKER_UNAVAILABLE: 503,
    ErrorCode.DATABASE_UNAVAILABLE: 503,
    ErrorCode.INFERENCE_FAILED: 500,
    ErrorCode.CORRUPT_ARTIFACT: 500,
    ErrorCode.INTERNAL: 500,
}

HTTP_STATUS: dict[ErrorCode, int] = {code: _STATUS_OTHER_THAN_422.get(code, 422) for code in ErrorCode}

_TYPE_OF_STATUS: dict[int, str] = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    410: "gone",
    429: "limit",
    500: "server",
    503: "unavailable",
    504: "timeout",
}


class HmiError(Exception):
    """An expected failure, with a code for programs and a message for people.

    ``param`` names the offending field of the request; ``details`` holds JSON values only;
    ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        param: str | None = None,
        details: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = ErrorCode(code)
        self.message = message
        self.param = param
        self.details = details
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status of this error."""
        return HTTP_STATUS[self.code]

    @property
    def type(self) -> str:
        """The category of the error, coarser than its code."""
        return _TYPE_OF_STATUS.get(self.status, "invalid_request")

    def to_json(self) -> dict[str, Any]:
        """The JSON body of the error response."""
        error: dict[str, Any] = {
            "type": self.type,
            "code": str(self.code),
            "message": self.message,
            "param": self.param,
        }
        if self.details is not None:
            error["details"] = self.details
        return {"error": error}


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is spelled most like another, if any is."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


def suggestion(name: str | None) -> str:
    """Return the sentence that offers a name, to be appended to a message; empty for None."""
    return "" if name is None else f" Did you mean {name}?"


def not_found(what: str, *, param: str | None = None, similar: str | None = None) -> HmiError:
    """Return a ``not_found`` error, the same whether the object is absent or another tenant's.

    ``similar`` is a name to offer, which the caller may see.
    """
    return HmiError(ErrorCode.NOT_FOUND, f"There is no such {what}.{suggestion(similar)}", param=param)


def require_found(row: Row | None, what: str, *, param: str | None = None) -> Row:
    """Return what a query found, or raise ``not_found`` for None."""
    if row is None:
        raise not_found(what, param=param)
    return row


def has_dependents(message: str, rows: "Sequence[Model]", *, param: str | None = None) -> HmiError:
    """Return a ``has_dependents`` error for the rows that prevent a deletion.

    ``details`` has their ``count`` and the first 20 as ``dependents``; the message names the first three.
    """
    listed = [_dependent(row) for row in rows[:MAX_DEPENDENTS_LISTED]]
    names = ", ".join(one["name"] for one in listed[:MAX_DEPENDENTS_NAMED])
    more = f" and {len(rows) - MAX_DEPENDENTS_NAMED} more" if len(rows) > MAX_DEPENDENTS_NAMED else ""
    return HmiError(
        ErrorCode.HAS_DEPENDENTS,
        f"{message}: {names}{more}.",
        param=param,
        details={"count": len(rows), "dependents": listed},
    )


def _dependent(row: "Model") -> dict[str, Any]:
    key = row.pk if isinstance(row.pk, int) else str(row.pk)
    kind = str(row._meta.verbose_name).replace(" ", "").lower()  # the name users know: an Hplm is a "model"
    return {"type": kind, "id": key, "name": str(row)}
