"""Parses the messages of a conversation, as OpenAI's fine-tuning files have them."""

from typing import Any, Final

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.examples import Message
from tenants.datasets.formats.values import RowContext, json_value, kind_of, text_value

ROLES: Final = ("system", "developer", "user", "assistant")
ASSISTANT: Final = "assistant"
SHAREGPT_ROLES: Final = {"human": "user", "gpt": ASSISTANT, "chatgpt": ASSISTANT}
"""ShareGPT has messages of ``from`` and ``value``; it has these names besides OpenAI's."""
MESSAGE_FIELDS: Final = frozenset({"role", "content", "weight"})
MAX_MESSAGES: Final = 1_000


def messages_value(row: RowContext, name: str, value: Any) -> tuple[Message, ...]:
    """The messages of a conversation, in a cell of a table as JSON text.

    The last message is the assistant's, at least one of the user's is before it, and at least one of the
    assistant's is learned. A content is text, or a list of parts of the type text, which are joined. The
    weight of an assistant's message is 0 (only read) or 1 (learned). Fields that are null do not count. Other
    fields, such as ``tool_calls``, are refused: they would be lost silently.
    """
    found = json_value(row, name, value)
    if not isinstance(found, list):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(found)}, not a list of messages.", field=name)
    if len(found) > MAX_MESSAGES:
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"{name!r} has {len(found):,} messages; at most {MAX_MESSAGES:,} are allowed.",
            field=name,
            limit=MAX_MESSAGES,
        )
    messages = tuple(_message(row, f"{name}[{index}]", item) for index, item in enumerate(found))
    if not messages or messages[-1].role != ASSISTANT:
        row.fail(ErrorCode.MALFORMED_ROW, "the last message must be the assistant's.", field=name)
    if not any(message.role == "user" for message in messages):
        row.fail(
            ErrorCode.MALFORMED_ROW, "there is no message of the user before the assistant's.", field=name
        )
    if not any(message.role == ASSISTANT and message.learned for message in messages):
        row.fail(
            ErrorCode.MALFORMED_ROW,
            "every message of the assistant has the weight 0: nothing to learn.",
            field=name,
        )
    return messages


def _message(row: RowContext, place: str, item: Any) -> Message:
    if not isinstance(item, dict):
        row.fail(ErrorCode.MIXED_TYPES, f"{place!r} is {kind_of(item)}, not an object.", field=place)
    if "from" in item and "role" not in item and "content" not in item:
        role, content = item["from"], item.get("value")
        others = {name: value for name, value in item.items() if name not in ("from", "value")}
        item = {**others, "role": SHAREGPT_ROLES.get(str(role), role), "content": content}
    unknown = sorted(name for name, value in item.items() if value is not None and name not in MESSAGE_FIELDS)
    if unknown:
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"{place!r} has the field {unknown[0][:60]!r}; messages have a role, a content and a weight.",
            field=place,
        )
    role = item.get("role")
    if role not in ROLES:
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"the role of {place!r} is {str(role)[:60]!r}; roles are {', '.join(ROLES)}.",
            field=f"{place}.role",
        )
    content = _content(row, f"{place}.content", item.get("content"))
    return Message(role, content, _is_learned(row, f"{place}.weight", role, item.get("weight")))


def _content(row: RowContext, place: str, value: Any) -> str:
    if not isinstance(value, list):
        return text_value(row, place, value)
    texts = [part.get("text") for part in value if isinstance(part, dict) and part.get("type") == "text"]
    if len(texts) != len(value):
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"{place!r} has a part that is not of the type text: models here read texts alone.",
            field=place,
        )
    if not all(isinstance(text, str) for text in texts):
        row.fail(ErrorCode.MIXED_TYPES, f"{place!r} has a part whose text is not text.", field=place)
    return text_value(row, place, "".join(map(str, texts)))


def _is_learned(row: RowContext, place: str, role: str, weight: Any) -> bool:
    if weight is None:
        return True
    if isinstance(weight, bool) or weight not in (0, 1) or role != ASSISTANT:
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"{place!r} is {str(weight)[:40]}; only the assistant's messages have one, which is 0 or 1.",
            field=place,
        )
    return bool(weight)
