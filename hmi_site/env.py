"""Read settings from environment variables. An invalid value raises ImproperlyConfigured with the name.

An empty variable is the same as an unset one: the default applies.
"""

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured

from inference.logs import shown_setting

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
T = TypeVar("T")
in_use: dict[str, object] = {}
"""The value in use of each variable that was read: its own, or the default."""


def text(name: str, default: str = "") -> str:
    """The variable without surrounding blanks."""
    return _use(name, _raw(name) or default)


def is_set(name: str) -> bool:
    """Whether the variable is set, to something else than blanks."""
    return bool(_raw(name))


def integer(name: str, default: int, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """An integer within [minimum, maximum]."""
    value = _raw(name)
    if not value:
        return _use(name, default)
    try:
        number = int(value)
    except ValueError:
        raise _invalid(name, value, "a whole number") from None
    _check_range(name, number, minimum, maximum)
    return _use(name, number)


def decimal(
    name: str, default: float, *, minimum: float | None = None, maximum: float | None = None
) -> float:
    """A finite float within [minimum, maximum]."""
    value = _raw(name)
    if not value:
        return _use(name, default)
    try:
        number = float(value)
    except ValueError:
        raise _invalid(name, value, "a number") from None
    if number != number or number in {float("inf"), float("-inf")}:
        raise _invalid(name, value, "a finite number")
    _check_range(name, number, minimum, maximum)
    return _use(name, number)


def flag(name: str, default: bool) -> bool:
    """A boolean."""
    value = _raw(name)
    if not value:
        return _use(name, default)
    word = value.lower()
    if word in TRUE_WORDS | FALSE_WORDS:
        return _use(name, word in TRUE_WORDS)
    raise _invalid(name, value, "one of true, false, yes, no, on, off, 1, 0")


def choice(name: str, default: str, choices: Sequence[str]) -> str:
    """One of the choices."""
    value = text(name, default)
    if value not in choices:
        raise _invalid(name, value, f"one of {', '.join(choices)}")
    return value


def networks(name: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Comma-separated networks such as 10.0.0.0/8."""
    value = text(name)
    try:
        return [ipaddress.ip_network(word.strip()) for word in value.split(",") if word.strip()]
    except ValueError:
        raise _invalid(name, value, "networks such as 10.1.0.0/16, separated by commas") from None


def path(name: str, default: Path) -> Path:
    """An absolute path. Expands `~`; a relative path is relative to the working directory."""
    value = text(name)
    if "\0" in value:
        raise _invalid(name, value, "a path")
    return _use(name, Path.cwd() / Path(value).expanduser() if value else default)


def optional_path(name: str) -> Path | None:
    """A path, or None when the variable is unset."""
    return path(name, Path()) if text(name) else None


def comma_separated(name: str, default: Sequence[str]) -> list[str]:
    """A list of comma-separated values."""
    value = _raw(name)
    words = [word.strip() for word in value.split(",") if word.strip()] if value else list(default)
    return _use(name, words)


def _raw(name: str) -> str:
    return os.environ.get(name, "").strip()


def _use(name: str, value: T) -> T:
    in_use[name] = value
    return value


def _check_range(name: str, number: float, minimum: float | None, maximum: float | None) -> None:
    if minimum is not None and number < minimum:
        raise _invalid(name, str(number), f"at least {minimum}")
    if maximum is not None and number > maximum:
        raise _invalid(name, str(number), f"at most {maximum}")


def _invalid(name: str, value: str, wanted: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} is {shown_setting(value)}, but must be {wanted}.")
