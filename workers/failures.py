"""The error of a failed job: a message for its tenant, and a traceback for the administrator."""

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from inference.device_errors import LIBRARY_ERRORS, is_out_of_memory
from inference.errors import HplmError
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.secrets import mask_secrets
from workers.training import disk

MAX_FRAMES = 20
MAX_CHARACTERS = 8_000

_KNOWN_CODES = frozenset(code.value for code in ErrorCode)

CRASHED: Final = "The job stopped because of an internal error. The administrator can see the details."
OUT_OF_MEMORY: Final = (
    "The machine has too little memory for this job, even in the smallest steps. Choose smaller settings, or"
    " ask the administrator for a larger machine."
)
DIVERGED: Final = (
    "The training diverged: its loss is not a finite number. Start it again with a lower learning rate."
)
TOO_SMALL: Final = "The corpus is too small to learn from. Upload more text."

_MESSAGES: Final = {
    ErrorCode.OUT_OF_MEMORY: OUT_OF_MEMORY,
    ErrorCode.OUT_OF_DISK: disk.DISK_FULL,
    ErrorCode.TRAINING_DIVERGED: DIVERGED,
    ErrorCode.CORPUS_TOO_SMALL: TOO_SMALL,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A code and message for the tenant, a trimmed traceback for the administrator."""

    code: ErrorCode
    message: str
    traceback: str


def failure_from(error: BaseException) -> Failure:
    """An expected error keeps its code and message; for a crash the tenant gets a general message."""
    code, message = _code_and_message(error)
    return Failure(code, message, trimmed_traceback(error))


def trimmed_traceback(error: BaseException) -> str:
    """The last frames and the message; without local values, which may contain a tenant's text."""
    lines = traceback.format_exception(error, limit=-MAX_FRAMES)
    # PostgreSQL text takes no NUL, and half a surrogate pair cannot be encoded.
    text = "".join(lines).replace("\0", "").encode("utf-8", "replace").decode()
    return mask_secrets(text)[-MAX_CHARACTERS:]


def _code_and_message(error: BaseException) -> tuple[ErrorCode, str]:
    if isinstance(error, HmiError):
        return error.code, error.message
    if isinstance(error, HplmError) and error.code in _KNOWN_CODES:
        code = ErrorCode(error.code)
        return code, error.message or _MESSAGES.get(code, CRASHED)
    for cause in _causes(error):
        if (found := _exhausted_resource(cause)) is not None:
            return found, _MESSAGES[found]
    return ErrorCode.JOB_CRASHED, error.message if isinstance(error, HplmError) else CRASHED


def _exhausted_resource(error: BaseException) -> ErrorCode | None:
    """The code for full memory or disk, if that is the error."""
    may_be_disk = isinstance(error, OSError) or type(error).__name__ in LIBRARY_ERRORS
    if may_be_disk and disk.is_disk_full(error):
        return ErrorCode.OUT_OF_DISK
    return ErrorCode.OUT_OF_MEMORY if is_out_of_memory(error) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and the chain of its causes."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
