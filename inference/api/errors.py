"""In which shape the clients of an address expect an error."""

from typing import Any, Final

from inference.api.oip.errors import oip_error, oip_status, speaks_oip
from tenants.api.openai.errors import openai_error, openai_status, speaks_openai
from tenants.errors import HmiError

API_PREFIX: Final = "/api/"


def speaks_json(path: str) -> bool:
    """Whether programs ask at this address, and not people in a browser."""
    return path.startswith(API_PREFIX) or speaks_oip(path) or speaks_openai(path)


def rendered(error: HmiError, path: str) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the JSON value of the error at this address."""
    if speaks_oip(path):
        return oip_status(error), oip_error(error)
    if speaks_openai(path):
        return openai_status(error), openai_error(error)
    return error.status, error.to_json()
