"""The messages of `POST /v1/chat/completions`: text, from people and the assistant."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from inference.api.validation import invalid
from inference.errors import HplmError
from inference.generation.requests import SamplingParams
from inference.openai.request_fields import ignored_in_message, unsupported
from inference.text.chat_template import ChatMessage, chat_role, check_messages
from tenants.base.errors import ErrorCode, HmiError

MESSAGE_FIELDS: Final = ("role", "content", "name")
LOCATED: Final = frozenset({"messages", *(field.name for field in fields(SamplingParams))})
"""The parameters that lower layers check."""
RETRY_AFTER_S: Final = 1
TOOL_ROLES: Final = ("tool", "function")


def parse_messages(value: object) -> tuple[tuple[ChatMessage, ...], list[str]]:
    """The checked messages that the JSON value is, and the fields of them that are ignored. Raises
    HmiError."""
    if not isinstance(value, list):
        raise invalid("messages", 'The messages are a list of {"role": "user", "content": "..."}.')
    ignored: list[str] = []
    messages = tuple(_message(f"messages[{index}]", each, ignored) for index, each in enumerate(value))
    try:
        check_messages(messages)
    except HplmError as error:
        raise located(error) from error
    return messages, ignored


def _message(where: str, value: object, ignored: list[str]) -> ChatMessage:
    if not isinstance(value, Mapping):
        raise invalid(where, 'A message is an object: {"role": "user", "content": "..."}.')
    ignored += ignored_in_message(value, MESSAGE_FIELDS, where=where)
    role, name = value.get("role"), value.get("name")
    if not isinstance(role, str):
        raise invalid(f"{where}.role", "The role is a string.")
    if role in TOOL_ROLES:
        raise unsupported(f"{where}.role", "Tools are not supported.")
    if name is not None and not isinstance(name, str):
        raise invalid(f"{where}.name", "The name is a string.")
    text = _content(f"{where}.content", value.get("content"))
    return ChatMessage(chat_role(role), text, name)


def _content(where: str, value: object) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise invalid(where, "The content is a string, or a list of parts of text.")
    return "".join(_part(f"{where}[{index}]", part) for index, part in enumerate(value))


def _part(where: str, value: object) -> str:
    kind, text = (value.get("type"), value.get("text")) if isinstance(value, Mapping) else (None, None)
    if isinstance(kind, str) and kind != "text":
        raise unsupported(where, f"Parts of the type {kind[:64]!a} are not supported; send text.")
    if not isinstance(text, str):
        raise invalid(where, 'A part is {"type": "text", "text": "..."}.')
    return text


def located(error: HplmError) -> HmiError:
    """The error of a lower layer, with the place that its message begins with."""
    place = error.message.split(" ", 1)[0]
    param = place if place.partition("[")[0] in LOCATED else None
    message = error.message if param else f"{error.message[:1].upper()}{error.message[1:]}"
    retry_after = RETRY_AFTER_S if error.code == ErrorCode.QUEUE_FULL else None
    return HmiError(ErrorCode(error.code), f"{message}.", param=param, retry_after=retry_after)
