"""Ids and times as OpenAI formats them: `file-0af3…`, seconds since 1970."""

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from tenants.base.errors import ErrorCode, HmiError

FILE: Final = "file"
FINE_TUNING: Final = "ftjob"
BATCH: Final = "batch"
_NAMES: Final = {FILE: "file", FINE_TUNING: "fine-tuning job", BATCH: "batch"}
_HEX: Final = re.compile(r"[0-9a-f]{32}")


def format_id(prefix: str, key: UUID) -> str:
    """The id of an object: ``file-`` and 32 hexadecimal digits."""
    return f"{prefix}-{key.hex}"


def parse_id(prefix: str, value: str, *, param: str) -> UUID:
    """The primary key in an id. Raises ``not_found`` if the id has another prefix or is malformed."""
    found, _, digits = value.partition("-")
    if found != prefix or not _HEX.fullmatch(digits):
        message = f"There is no {_NAMES[prefix]} {value[:64]!a}."
        raise HmiError(ErrorCode.NOT_FOUND, message, param=param)
    return UUID(digits)


def unix_time(moment: datetime | None) -> int | None:
    """Seconds since 1970, or None."""
    return None if moment is None else int(moment.timestamp())
