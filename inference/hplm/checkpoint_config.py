"""Reads the fields of a checkpoint's config.json. All raise HplmError(unsupported_checkpoint) by the field's
name."""

import math
from collections.abc import Mapping
from typing import Any

from inference.errors import HplmError

Config = Mapping[str, Any]


def unsupported(message: str) -> HplmError:
    """The error for a config.json that cannot be served."""
    return HplmError("unsupported_checkpoint", f"config.json: {message}")


def config_int(raw: Config, name: str, default: int | None = None) -> int:
    """An integer."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise unsupported(f"{name} is {value!r}, not a whole number")
    return value


def config_number(raw: Config, name: str, default: float) -> float:
    """A positive number."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unsupported(f"{name} is {value!r}, not a number")
    if not (value > 0 and math.isfinite(value)):
        raise unsupported(f"{name} is {value!r}, not a positive number")
    return float(value)


def config_bool(raw: Config, name: str, *, default: bool) -> bool:
    """A truth value."""
    value = raw.get(name, default)
    if not isinstance(value, bool):
        raise unsupported(f"{name} is {value!r}, not true or false")
    return value


def require(raw: Config, name: str, wanted: Any) -> None:
    """Raise unless the field has the only value that is supported, which is also its default."""
    value = raw.get(name, wanted)
    if value != wanted:
        raise unsupported(f"{name} {value!r} is not supported, only {wanted!r}")


def rotary_base(raw: Config, default: float, *, of_layers: str | None = None) -> float:
    """The base of unscaled rotary positions: `rope_theta` of `rope_parameters`, or of its part for the layers
    of that type, or of the config itself as older ones have it."""
    given = raw.get("rope_parameters") or {}
    if of_layers is not None and isinstance(given, Mapping):
        given = given.get(of_layers) or {}
    scaling = raw.get("rope_scaling") or {}
    if not isinstance(given, Mapping) or not isinstance(scaling, Mapping):
        raise unsupported("rope_parameters and rope_scaling must be objects")
    for part in (given, scaling):
        kind = part.get("rope_type", part.get("type", "default"))
        if kind != "default":
            raise unsupported(f"rotary scaling {kind!r} is not supported, only 'default'")
    if given.get("partial_rotary_factor", 1.0) != 1.0:
        raise unsupported("partial rotary positions are not supported")
    return config_number({"rope_theta": raw.get("rope_theta", default), **given}, "rope_theta", default)
