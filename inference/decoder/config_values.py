"""Checked values of a decoder's config.json."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from inference.errors import HplmError

MAX_FLOAT: Final = sys.float_info.max


def config_flag(raw: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A truth value of a config.json. Raises HplmError(unsupported_checkpoint) for another value."""
    value = raw.get(name, default)
    if not isinstance(value, bool):
        raise HplmError("unsupported_checkpoint", f"config.json: {name} is {value!r}, not true or false")
    return value


def config_float(raw: Mapping[str, Any], name: str, default: float) -> float:
    """A positive number of a config.json. Raises HplmError(unsupported_checkpoint) for another value."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_FLOAT:
        raise HplmError("unsupported_checkpoint", f"config.json: {name} is {value!r}, not a positive number")
    return float(value)


def head_size_of(hidden: int, heads: int) -> int:
    """The numbers of a head. Raises HplmError(unsupported_checkpoint) if the hidden size has no such part."""
    if heads < 1 or hidden % heads:
        raise HplmError(
            "unsupported_checkpoint",
            f"config.json: the hidden size {hidden} is not divisible by the {heads} heads",
        )
    return hidden // heads


def require_flag(raw: Mapping[str, Any], name: str, wanted: bool, reason: str) -> None:
    """Raise HplmError(unsupported_checkpoint) unless the field is `wanted`, which is also its default."""
    if config_flag(raw, name, default=wanted) != wanted:
        raise HplmError("unsupported_checkpoint", f"config.json: {name}: {reason} is not supported")
