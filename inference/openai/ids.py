"""Ids as the OpenAI conventions write them: what it is, a hyphen, and 32 hexadecimal digits."""

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from tenants.base.errors import ErrorCode, HmiError

FILE: Final = "file"
UPLOAD: Final = "upload"
PART: Final = "part"
FINE_TUNING: Final = "ftjob"
BATCH: Final = "batch"

_WORDS: Final = {FILE: "file", UPLOAD: "upload", PART: "part", FINE_TUNING: "fine-tuning job", BATCH: "batch"}
_ID: Final = re.compile(r"[0-9a-f]{32}")


def written_id(kind: str, key: UUID) -> str:
    """The id of one of this kind."""
    return f"{kind}-{key.hex}"


def read_id(kind: str, given: str, *, param: str) -> UUID:
    """The key that is written like this; else there is no such thing: ``not_found``."""
    found, _, digits = given.partition("-")
    if found != kind or not _ID.fullmatch(digits):
        shown = ascii(given[:64])
        raise HmiError(ErrorCode.NOT_FOUND, f"There is no {_WORDS[kind]} {shown}.", param=param)
    return UUID(digits)


def unix(moment: datetime | None) -> int | None:
    """Seconds since 1970, as these conventions tell the time."""
    return None if moment is None else int(moment.timestamp())
