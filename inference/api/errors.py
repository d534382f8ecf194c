"""Renders errors in the format of the protocol of an address. Each protocol registers its own format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenants.base.errors import HmiError

API_PREFIX: Final = "/api/"


@dataclass(frozen=True, slots=True)
class ErrorFormat:
    """The status and the JSON body of errors at the addresses that begin with ``prefix``."""

    prefix: str
    status: Callable[[HmiError], int]
    body: Callable[[HmiError], Mapping[str, Any]]


_formats: list[ErrorFormat] = [
    ErrorFormat(API_PREFIX, lambda error: error.status, lambda error: error.to_json())
]


def register_errors(error_format: ErrorFormat) -> None:
    """Register the format of a protocol, once, while Django starts."""
    _formats.append(error_format)


def speaks_json(path: str) -> bool:
    """Whether the address is one of an API, whose errors are JSON, and no page."""
    return _format_of(path) is not None


def rendered(error: HmiError, path: str) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the JSON value of the error at this address."""
    written = _format_of(path) or _formats[0]
    return written.status(error), dict(written.body(error))


def _format_of(path: str) -> ErrorFormat | None:
    return next((each for each in _formats if f"{path}/".startswith(each.prefix)), None)
