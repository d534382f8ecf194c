"""Errors as the Open Inference Protocol formats them, and which paths belong to it."""

from typing import Final

from tenants.base.errors import HmiError

PREFIX: Final = "/v2/"
BAD_REQUEST: Final = 400
UNPROCESSABLE: Final = 422


def is_oip_path(path: str) -> bool:
    """Whether the path belongs to the protocol."""
    return f"{path}/".startswith(PREFIX)


def oip_status(error: HmiError) -> int:
    """The HTTP status of the error."""
    return BAD_REQUEST if error.status == UNPROCESSABLE else error.status


def oip_error(error: HmiError) -> dict[str, str]:
    """The JSON body of the error."""
    return {"error": error.message}
