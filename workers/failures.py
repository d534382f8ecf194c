"""Why a job failed: what its tenant reads, and what only the administrator sees."""

import errno
import traceback
from dataclasses import dataclass

from inference.hplm.errors import HplmError
from tenants.errors import ErrorCode, HmiError

FRAMES_KEPT = 20
CHARACTERS_KEPT = 8_000

_KNOWN_CODES = frozenset(code.value for code in ErrorCode)

CRASHED = "The job stopped because of an internal error. The administrator can see the details."
NO_MEMORY = "The job stopped because the machine ran out of memory."
NO_SPACE = "The job stopped because the disk is full."


@dataclass(frozen=True, slots=True)
class Failure:
    """A code and sentence for the tenant, a trimmed traceback for the administrator."""

    code: ErrorCode
    message: str
    traceback: str


def explain(error: BaseException) -> Failure:
    """An expected failure keeps its own code and words; a crash tells the tenant little."""
    code, message = _code_and_message(error)
    return Failure(code, message, trimmed_traceback(error))


def trimmed_traceback(error: BaseException) -> str:
    """The last frames and the message, without local values: those may hold a tenant's text."""
    lines = traceback.format_exception(error, limit=-FRAMES_KEPT)
    # PostgreSQL text takes no NUL, and half a surrogate pair cannot be encoded.
    text = "".join(lines).replace("\0", "").encode("utf-8", "replace").decode()
    return text[-CHARACTERS_KEPT:]


def _code_and_message(error: BaseException) -> tuple[ErrorCode, str]:
    if isinstance(error, HmiError):
        return error.code, error.message
    if isinstance(error, HplmError):
        known = error.code in _KNOWN_CODES
        return ErrorCode(error.code) if known else ErrorCode.JOB_CRASHED, error.message
    if isinstance(error, MemoryError):
        return ErrorCode.JOB_CRASHED, NO_MEMORY
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return ErrorCode.JOB_CRASHED, NO_SPACE
    return ErrorCode.JOB_CRASHED, CRASHED
