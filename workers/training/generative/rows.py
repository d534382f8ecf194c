"""Rows of generative datasets in canonical form: prompts with completions, and conversations."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inference.errors import HplmError
from inference.text.chat_template import ChatMessage, chat_role

GENERATION: Final = "generation"
CHAT: Final = "chat"
ASSISTANT: Final = "assistant"


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt, and the completion that the model learns to write right after it."""

    prompt: str
    completion: str

    @property
    def reference(self) -> str:
        """The text that a good model writes."""
        return self.completion


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. learned: whether the model learns to write it."""

    role: str
    content: str
    learned: bool = False

    @property
    def chat(self) -> ChatMessage:
        """The message as chat templates read it."""
        return ChatMessage(chat_role(self.role), self.content)


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A conversation, which ends with a message of the assistant."""

    messages: tuple[Message, ...]

    @property
    def reference(self) -> str:
        """The text that a good model writes at the end."""
        return self.messages[-1].content


Row = PromptRow | ChatRow


def read_rows(path: Path, task: str) -> list[Row]:
    """Read one split of the task "generation" or "chat".

    Raises HplmError: "malformed_row" with the number of the row and the field, "too_few_rows" if there is
    none.
    """
    rows = list(_rows(path, task))
    if not rows:
        raise HplmError("too_few_rows", f"{path.name} holds no row.")
    return rows


def _rows(path: Path, task: str) -> Iterator[Row]:
    read = _READERS[task]
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError("not a JSON object")
                yield read(row)
            except KeyError as error:
                reason = f"the field {error} is missing"
                raise HplmError("malformed_row", f"Row {number} of {path.name}: {reason}.") from error
            except (ValueError, TypeError, RecursionError) as error:
                raise HplmError("malformed_row", f"Row {number} of {path.name}: {error}.") from error


def _prompt_row(row: dict[str, Any]) -> PromptRow:
    return PromptRow(_text(row, "prompt", "prompt"), _text(row, "completion", "completion"))


def _chat_row(row: dict[str, Any]) -> ChatRow:
    found = row["messages"]
    if not isinstance(found, list) or not all(isinstance(message, dict) for message in found):
        raise TypeError("messages must be a list of objects")
    messages = tuple(_message(message, f"messages[{index}]") for index, message in enumerate(found))
    if not messages or messages[-1].role != ASSISTANT:
        raise ValueError("messages must end with one of the assistant")
    if not any(message.learned for message in messages):
        raise ValueError("messages must have one of the assistant with a weight of 1")
    return ChatRow(messages)


def _message(message: dict[str, Any], place: str) -> Message:
    role, weight = _text(message, "role", f"{place}.role"), message.get("weight", 1)
    if weight not in (0, 1):
        raise ValueError(f"{place}.weight must be 0 or 1")
    content = _text(message, "content", f"{place}.content")
    return Message(role, content, learned=role == ASSISTANT and bool(weight))


def _text(fields: dict[str, Any], name: str, place: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{place} must be a text that is not blank")
    return value


_READERS: Final[Mapping[str, Callable[[dict[str, Any]], Row]]] = {GENERATION: _prompt_row, CHAT: _chat_row}
