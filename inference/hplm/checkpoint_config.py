"""Reads the fields of a checkpoint's config.json. All raise HplmError(unsupported_checkpoint) by the field's
name."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from inference.errors import HplmError

Config = Mapping[str, Any]

MAX_LAYERS: Final = 1024
MAX_POSITIONS: Final = 1 << 21
MAX_SIZE: Final = 1 << 28
"""The most of a vocabulary, and of the width of a layer."""


def unsupported(message: str) -> HplmError:
    """The error for a config.json that cannot be served."""
    return HplmError("unsupported_checkpoint", f"config.json: {message}")


def config_int(raw: Config, name: str, default: int | None = None) -> int:
    """An integer that is no larger than `MAX_SIZE`."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise unsupported(f"{name} is {value!r}, not a whole number")
    if abs(value) > MAX_SIZE:
        raise unsupported(f"{name} is out of range; {MAX_SIZE} is the most")
    return value


def config_layers(raw: Config, name: str = "num_hidden_layers", default: int | None = None) -> int:
    """The number of layers, small enough to list them."""
    layers = config_int(raw, name, default)
    if not 0 < layers <= MAX_LAYERS:
        raise unsupported(f"{name} is {layers}; 1 to {MAX_LAYERS} layers are supported")
    return layers


def config_number(raw: Config, name: str, default: float) -> float:
    """A positive number."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise unsupported(f"{name} is {value!r}, not a positive number")
    return float(value)


def config_bool(raw: Config, name: str, *, default: bool) -> bool:
    """A truth value."""
    value = raw.get(name, default)
    if not isinstance(value, bool):
        raise unsupported(f"{name} is {value!r}, not true or false")
    return value


def require(raw: Config, name: str, wanted: Any, reason: str = "") -> None:
    """Raise unless the field has the only value that is supported, which is also its default. reason: what
    another value means."""
    value = raw.get(name, wanted)
    if value != wanted:
        raise unsupported(f"{name} {value!r} is not supported{reason and f' ({reason})'}, only {wanted!r}")


def head_size_of(hidden: int, heads: int) -> int:
    """The numbers of a head. Raises if the hidden size has no such part."""
    if heads < 1 or hidden % heads:
        raise unsupported(f"the hidden size {hidden} is not divisible by the {heads} heads")
    return hidden // heads


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Raise unless the sizes of an architecture, by their names, are positive and not absurd."""
    for name, size in sizes.items():
        most = {"layers": MAX_LAYERS, "positions": MAX_POSITIONS}.get(name, MAX_SIZE)
        if not isinstance(size, int) or size < 1:
            raise unsupported(f"{name} must be a positive number")
        if size > most:
            raise unsupported(f"{name} is {size}; {most} is the most")


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
