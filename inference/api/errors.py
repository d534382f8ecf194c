"""In which shape the clients of an address expect an error. Each protocol registers its own
(`register_errors`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenants.base.errors import HmiError

API_PREFIX: Final = "/api/"


@dataclass(frozen=True, slots=True)
class ErrorFormat:
    """How a protocol writes errors at the addresses that begin with ``prefix``."""

    prefix: str
    status: Callable[[HmiError], int]
    body: Callable[[HmiError], Mapping[str, Any]]


_formats: list[ErrorFormat] = [
    ErrorFormat(API_PREFIX, lambda error: error.status, lambda error: error.to_json())
]


def register_errors(error_format: ErrorFormat) -> None:
    """Called once by each protocol, while Django starts."""
    _formats.append(error_format)


def speaks_json(path: str) -> bool:
    """Whether programs ask at this address, and not people in a browser."""
    return _format_of(path) is not None


def rendered(error: HmiError, path: str) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the JSON value of the error at this address."""
    written = _format_of(path) or _formats[0]
    return written.status(error), dict(written.body(error))


def _format_of(path: str) -> ErrorFormat | None:
    return next((each for each in _formats if f"{path}/".startswith(each.prefix)), None)
