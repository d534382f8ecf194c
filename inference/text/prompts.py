"""Prompts of a generative root as token ids."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import tokenizers

from inference.text.chat_template import NO_VALUES, ChatMessage, ChatTemplate
from inference.text.encode import token_ids

ZERO_WIDTH_SPACE: Final = "\u200b"


class PromptTokenizer:
    """Tokenizes chats by the template of their root, and texts as they are. Thread-safe."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, template: ChatTemplate) -> None:
        # tokenizer.json may have truncation and padding of its own.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._template = template
        added = tokenizer.get_added_tokens_decoder().values()
        names = sorted((token.content for token in added if token.special and token.content), reverse=True)
        self._special_token = re.compile("|".join(map(re.escape, names))) if names else None

    def encode_text(self, text: str, *, limit: int | None = None) -> list[int]:
        """The ids of a text that is to be continued, behind those that the tokenizer begins every text with.
        Special tokens that are spelt out in it count as such: it is all the caller's own. Raises
        TooManyTokens for more than ``limit``."""
        return token_ids(self._tokenizer, text, add_special_tokens=True, limit=limit)

    @property
    def template_variables(self) -> Set[str]:
        """The variables of the chat template that a request may give values for."""
        return self._template.variables

    def encode_chat(
        self, messages: Sequence[ChatMessage], *, now: datetime, values: Mapping[str, Any] = NO_VALUES
    ) -> list[int]:
        """The ids of a chat, up to where the assistant's next message begins. Raises HplmError as
        `ChatTemplate.render`."""
        return self.encode_rendered(self.render_chat(messages, now=now, values=values))

    def render_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        now: datetime,
        open_turn: bool = True,
        values: Mapping[str, Any] = NO_VALUES,
    ) -> str:
        """The text of a chat, as `ChatTemplate.render`. Only the template's special tokens count as such: one
        that a message or a value spells out gets a zero-width space behind its first character, so that no
        message can pretend to be another's."""
        escaped = [
            replace(each, content=self._escaped(each.content), name=each.name and self._escaped(each.name))
            for each in messages
        ]
        given = {name: self._escaped(one) if isinstance(one, str) else one for name, one in values.items()}
        return self._template.render(escaped, now=now, open_turn=open_turn, values=given)

    def encode_rendered(self, text: str, *, limit: int | None = None) -> list[int]:
        """The ids of a text within a chat: nothing is added to it. Raises TooManyTokens for more than
        ``limit``."""
        return token_ids(self._tokenizer, text, add_special_tokens=False, limit=limit)

    def _escaped(self, text: str) -> str:
        if self._special_token is None:
            return text
        return self._special_token.sub(lambda found: f"{found[0][0]}{ZERO_WIDTH_SPACE}{found[0][1:]}", text)
