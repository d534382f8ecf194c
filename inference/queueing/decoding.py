"""Strict reading of JSON messages: every field present and of its own type, or a MessageError."""

import json
import math
from typing import Any, NoReturn


class MessageError(ValueError):
    """A message that cannot be read. ``request_id`` and ``reply_to`` are "" where those cannot either."""

    def __init__(self, message: str, *, request_id: str = "", reply_to: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.reply_to = reply_to


def decode(payload: bytes, *, version: int) -> "Reader":
    """Parse ``payload`` as an object of format ``version``."""
    try:
        data = json.loads(payload, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise MessageError(f"a message is an object, not {type(data).__name__}")
    reader = Reader(data, data)
    if reader.whole("v") != version:
        reader.fail(f"version {data['v']} is not version {version}")
    return reader


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


class Reader:
    """Typed access to the fields of one object of a message."""

    def __init__(self, data: dict[str, Any], message: dict[str, Any]) -> None:
        self._data = data
        self._message = message

    def fail(self, reason: str) -> NoReturn:
        """Raise MessageError with whatever tells whose message this was."""
        names = (self._message.get("id"), self._message.get("reply_to"))
        request_id, reply_to = (name if isinstance(name, str) else "" for name in names)
        raise MessageError(reason, request_id=request_id, reply_to=reply_to)

    def text(self, name: str) -> str:
        value = self._value(name)
        if not isinstance(value, str):
            self.fail(f"{name} must be a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._value(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self._value(name)
        if not isinstance(value, bool):
            self.fail(f"{name} must be true or false")
        return value

    def whole(self, name: str) -> int:
        value = self._value(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{name} must be a whole number")
        return value

    def number(self, name: str) -> float:
        value = self._value(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(f"{name} must be a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail(f"{name} must be a finite number")
        return number

    def wholes(self, *names: str) -> dict[str, int]:
        return {name: self.whole(name) for name in names}

    def numbers(self, *names: str) -> dict[str, float]:
        return {name: self.number(name) for name in names}

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, which may be empty."""
        value = self._value(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(f"{name} must be a list of strings")
        return tuple(value)

    def objects(self, name: str) -> tuple[dict[str, Any], ...]:
        value = self._value(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(f"{name} must be a list of objects")
        return tuple(value)

    def children(self, name: str) -> "tuple[Reader, ...]":
        """A list of objects, each to be read by itself."""
        return tuple(Reader(item, self._message) for item in self.objects(name))

    def child(self, name: str) -> "Reader":
        value = self._value(name)
        if not isinstance(value, dict):
            self.fail(f"{name} must be an object")
        return Reader(value, self._message)

    def child_or_none(self, name: str) -> "Reader | None":
        return None if self._value(name) is None else self.child(name)

    def _value(self, name: str) -> Any:
        if name not in self._data:
            self.fail(f"{name} is missing")
        return self._data[name]
