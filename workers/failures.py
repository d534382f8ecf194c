"""Why a job failed: what its tenant reads, and what only the administrator sees."""

import errno
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from inference.hplm.errors import HplmError
from tenants.base.errors import ErrorCode, HmiError
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
    "The training went astray: its loss is no longer a number. Start it again with a lower learning rate."
)
TOO_SMALL: Final = "The corpus is too small to learn from. Upload more text."

_SENTENCES: Final = {
    ErrorCode.OUT_OF_MEMORY: OUT_OF_MEMORY,
    ErrorCode.OUT_OF_DISK: disk.DISK_FULL,
    ErrorCode.TRAINING_DIVERGED: DIVERGED,
    ErrorCode.CORPUS_TOO_SMALL: TOO_SMALL,
}
# What libraries say that have no class of error for it; theirs that have one are known by its name, so that
# nothing large is imported only to look at an error.
_NO_MEMORY_WORDS: Final = ("can't allocate memory", "not enough memory", "Cannot allocate memory")
_NO_MEMORY_CLASSES: Final = frozenset({"OutOfMemoryError", "OutOfMemoryException"})
_FROM_LIBRARIES: Final = ("RuntimeError", "SafetensorError", "IOException", "DiskError", "Error")


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
    lines = traceback.format_exception(error, limit=-MAX_FRAMES)
    # PostgreSQL text takes no NUL, and half a surrogate pair cannot be encoded.
    text = "".join(lines).replace("\0", "").encode("utf-8", "replace").decode()
    return text[-MAX_CHARACTERS:]


def _code_and_message(error: BaseException) -> tuple[ErrorCode, str]:
    if isinstance(error, HmiError):
        return error.code, error.message
    if isinstance(error, HplmError) and error.code in _KNOWN_CODES:
        code = ErrorCode(error.code)
        return code, error.message or _SENTENCES.get(code, CRASHED)
    for cause in _causes(error):
        if (found := _exhausted(cause)) is not None:
            return found, _SENTENCES[found]
    return ErrorCode.JOB_CRASHED, error.message if isinstance(error, HplmError) else CRASHED


def _exhausted(error: BaseException) -> ErrorCode | None:
    """Which of the machine's means gave out, if that is what the error says."""
    kind, words = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or kind in _NO_MEMORY_CLASSES:
        return ErrorCode.OUT_OF_MEMORY
    if isinstance(error, OSError):
        little_memory = error.errno == errno.ENOMEM
    elif kind in _FROM_LIBRARIES:
        little_memory = any(sign in words for sign in _NO_MEMORY_WORDS)
    else:
        return None
    if disk.is_disk_full(error):
        return ErrorCode.OUT_OF_DISK
    return ErrorCode.OUT_OF_MEMORY if little_memory else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it came from."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
