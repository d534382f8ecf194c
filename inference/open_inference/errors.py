"""Errors as the Open Inference Protocol has them: ``{"error": "..."}``, and 400 for whatever is wrong with
the request."""

from typing import Final

from tenants.base.errors import HmiError

PREFIX: Final = "/v2/"
BAD_REQUEST: Final = 400
UNPROCESSABLE: Final = 422


def speaks_oip(path: str) -> bool:
    """Whether whoever asks at this address expects the protocol."""
    return f"{path}/".startswith(PREFIX)


def oip_status(error: HmiError) -> int:
    """The HTTP status of the error."""
    return BAD_REQUEST if error.status == UNPROCESSABLE else error.status


def oip_error(error: HmiError) -> dict[str, str]:
    """The JSON value of the error."""
    return {"error": error.message}
