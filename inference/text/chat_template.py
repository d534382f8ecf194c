"""Chat messages as the text that a model continues, by the chat template of its root.

A template comes with a checkpoint, so nobody vouches for it: `TemplateRenderer` runs it in another process,
within limits of time and memory. A root without a template has DEFAULT_TEMPLATE.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from inference.errors import HplmError
from inference.text.template_renderer import TEMPLATES, TemplateFailure, TemplateRefusal

TEMPLATE_FILE: Final = "chat_template.jinja"
CONFIG_FILE: Final = "tokenizer_config.json"
DEFAULT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ message.role | capitalize }}: {{ message.content }}"
    "{% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""A line for each message: `User: Hello`, with the token that ends a text behind those of the assistant."""
_CONTEXT_NAMES: Final = ("messages", "add_generation_prompt", "tools", "documents", "strftime_now")
"""Variables that each rendering has, besides special tokens."""
NO_VALUES: Final[Mapping[str, Any]] = {}
ROLES: Final = ("system", "user", "assistant")
_ROLE_NAMES: Final = {"developer": "system"}
"""Other names of roles. Templates do not know them."""
SPECIAL_TOKENS: Final = ("bos_token", "eos_token", "unk_token", "pad_token")
MAX_SOURCE: Final = 1 << 17
"""Characters of a template."""
MAX_MESSAGES: Final = 2048
MAX_CHARACTERS: Final = 1 << 21
"""Of all messages together."""
SAMPLES: Final = (("user",), ("system", "user"), ("user", "assistant", "user"), ("user", "assistant") * 32)
"""The roles of chats that the template of a root must be able to write, with messages of SAMPLE_LENGTH."""
SAMPLE_LENGTH: Final = 1024
REMEDY: Final = "mend the template, or remove it from the checkpoint"


def chat_role(name: str) -> str:
    """The role as templates know it: a developer's messages are those of the system."""
    return _ROLE_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """What one side said. name: of who said it, for templates that write it."""

    role: str
    content: str
    name: str | None = None


class ChatTemplate:
    """The template of one root. Thread-safe."""

    def __init__(self, source: str | None = None, special_tokens: Mapping[str, str] | None = None) -> None:
        """``special_tokens``: the texts of `bos_token`, `eos_token` and so on. Without a source it is the
        default template. Raises HplmError(unsupported_checkpoint) for a source that cannot be used."""
        source = DEFAULT_TEMPLATE if source is None else source
        self._special_tokens = dict.fromkeys(SPECIAL_TOKENS, "") | dict(special_tokens or {})
        if len(source) > MAX_SOURCE:
            message = (
                f"the chat template has {len(source):,} characters; at most {MAX_SOURCE:,} are supported"
            )
            raise HplmError("unsupported_checkpoint", message)
        self._source = source
        try:
            used = TEMPLATES.variables(source)
        except TemplateFailure as error:
            message = f"the chat template cannot be used: {error}; {REMEDY}"
            raise HplmError("unsupported_checkpoint", message) from error
        self.variables = used - {*self._special_tokens, *_CONTEXT_NAMES}
        """What the template reads besides what every rendering has, such as Qwen's `enable_thinking`."""

    @classmethod
    def of_root(cls, folder: Path) -> "ChatTemplate":
        """The template in a checkpoint's or a root's folder, by its chat_template.jinja or its
        tokenizer_config.json; the default one where neither has any. Raises
        HplmError(unsupported_checkpoint)."""
        config = _read_config(folder / CONFIG_FILE)
        special_tokens = {name: text for name in SPECIAL_TOKENS if (text := _token_text(config.get(name)))}
        return cls(_source_of(folder, config), special_tokens)

    def check(self) -> None:
        """Raises HplmError(unsupported_checkpoint) if the template fails or is slow where it does not refuse,
        with what it says."""
        for roles in SAMPLES:
            messages = [ChatMessage(role, role.ljust(SAMPLE_LENGTH, ".")) for role in roles]
            try:
                self.render(messages, now=datetime.now(UTC))
            except HplmError as error:
                if not isinstance(error.__cause__, TemplateRefusal):
                    message = f"the chat template fails for {len(roles)} messages ({', '.join(roles[:3])}): "
                    raise HplmError(
                        "unsupported_checkpoint", f"{message}{error.__cause__}; {REMEDY}"
                    ) from error

    def render(
        self,
        messages: Sequence[ChatMessage],
        *,
        now: datetime,
        open_turn: bool = True,
        values: Mapping[str, Any] = NO_VALUES,
    ) -> str:
        """The messages as text, with its special tokens spelt out; with ``open_turn`` up to where the
        assistant's next message begins. ``now``: the date for templates that write it; ``values``: of its
        ``variables``, others are left out.

        Raises HplmError: ``missing_field``, ``invalid_field``, ``invalid_encoding`` or ``body_too_large`` for
        messages that are not valid, that the template refuses or that it fails for; ``queue_full`` while
        others wait for a slow template.
        """
        check_messages(messages)
        given = {
            **{name: value for name, value in values.items() if name in self.variables},
            **self._special_tokens,
            "messages": [_as_mapping(message) for message in messages],
            "add_generation_prompt": open_turn,
            "tools": None,
            "documents": None,
        }
        try:
            return TEMPLATES.render(self._source, given, now)
        except TemplateRefusal as error:
            raise HplmError("invalid_field", f"the chat template says: {error}") from error
        except TemplateFailure as error:
            message = f"messages cannot be written by the chat template of this model: {error}"
            raise HplmError("invalid_field", message) from error


def source_in_folder(folder: Path) -> str | None:
    """The chat template in a checkpoint's folder, if it has one. Raises HplmError(unsupported_checkpoint)."""
    return _source_of(folder, _read_config(folder / CONFIG_FILE))


def _source_of(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / TEMPLATE_FILE
    if not file.is_file():
        return _source_in(config)
    try:
        return file.read_text(encoding="utf-8")
    except ValueError as error:
        raise HplmError("unsupported_checkpoint", f"{file.name} is not UTF-8: {error}") from error


def check_messages(messages: Sequence[ChatMessage]) -> None:
    """Raises HplmError unless there are messages, not too many, with known roles and Unicode text; the
    message names the place."""
    if not messages:
        raise HplmError("missing_field", "messages must hold at least one message")
    if len(messages) > MAX_MESSAGES:
        message = f"{len(messages):,} messages were given; at most {MAX_MESSAGES:,} are allowed"
        raise HplmError("invalid_field", message)
    for index, each in enumerate(messages):
        if each.role not in ROLES:
            message = f"messages[{index}].role must be one of {', '.join(ROLES)}, not {each.role[:64]!a}"
            raise HplmError("invalid_field", message)
        _check_text(f"messages[{index}].content", each.content)
        _check_text(f"messages[{index}].name", each.name or "")
    if (characters := sum(len(each.content) for each in messages)) > MAX_CHARACTERS:
        message = f"the messages have {characters:,} characters; at most {MAX_CHARACTERS:,} are allowed"
        raise HplmError("body_too_large", message)


def _check_text(where: str, text: str) -> None:
    if "\0" in text:
        raise HplmError("invalid_encoding", f"{where} holds a NUL character (position {text.index(chr(0))})")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{where} holds half a surrogate pair (position {error.start})"
        raise HplmError("invalid_encoding", message) from None


def _as_mapping(message: ChatMessage) -> dict[str, str]:
    name = {} if message.name is None else {"name": message.name}
    return {"role": message.role, "content": message.content, **name}


def _read_config(path: Path) -> Mapping[str, Any]:
    """The JSON object in the file; empty without one."""
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise HplmError("unsupported_checkpoint", f"{path.name} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise HplmError("unsupported_checkpoint", f"{path.name} holds no JSON object")
    return config


def _source_in(config: Mapping[str, Any]) -> str | None:
    """The template in a tokenizer_config.json; of several, the one named "default"."""
    found = config.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    if found is not None and not isinstance(found, str):
        raise HplmError("unsupported_checkpoint", f"the chat template in {CONFIG_FILE} is not text")
    return found


def _token_text(token: object) -> str | None:
    """The text of a special token, which is stored as such or with its properties."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None
