"""Tokenises rows of generative datasets, and marks the tokens that the model learns to write."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers

from inference.errors import HplmError
from workers.training.generative.packing import TrainingSequence
from workers.training.generative.rows import ASSISTANT, ChatRow, Message, PromptRow, Row

RenderChat = Callable[[Sequence[Message], bool], str]
"""A chat template: the messages as text; with True up to where the assistant's next message begins."""
Segment = tuple[list[int], bool]
"""Token ids, and whether the model learns to write them."""


@dataclass(frozen=True, slots=True)
class GenerativeTokenizer:
    """The tokenizer and the chat template of a root.

    stop_ids: the tokens that end an answer; completions of prompts end with the first. max_tokens: longer
    rows lose their end.
    """

    tokenizer: tokenizers.Tokenizer
    stop_ids: tuple[int, ...]
    render: RenderChat
    max_tokens: int

    def prompt(self, row: Row) -> list[int]:
        """The tokens after which a model writes the row's reference, as in serving."""
        if isinstance(row, PromptRow):
            return self._encode(row.prompt, special=True)
        return self._encode(self.render(row.messages[:-1], True))

    def sequence(self, row: Row) -> TrainingSequence | None:
        """The row up to the last token that is learned; None if none is within `max_tokens`.

        Raises HplmError(malformed_row) for a conversation that the chat template refuses or cannot continue.
        """
        segments = self._prompt_segments(row) if isinstance(row, PromptRow) else self._chat_segments(row)
        ids = [token for tokens, _ in segments for token in tokens]
        learned = np.asarray([is_learned for tokens, is_learned in segments for _ in tokens], dtype=np.bool_)
        # The first token is read, never written.
        found = np.flatnonzero(learned[1 : self.max_tokens + 1])
        if not len(found):
            return None
        end = int(found[-1]) + 1
        # What follows the last learned token is no loss.
        truncated = bool(learned[self.max_tokens + 1 :].any())
        return TrainingSequence(np.asarray(ids[: end + 1], dtype=np.int64), learned[1 : end + 1], truncated)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated tokens, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _prompt_segments(self, row: PromptRow) -> list[Segment]:
        """The prompt has the tokens that it has in serving, whatever follows it."""
        prompt = self._encode(row.prompt, special=True)
        both = self._encode(row.prompt + row.completion, special=True)
        # Together, as a completion may not begin like a text of its own. Tokens across the border are split.
        together = both[: len(prompt)] == prompt
        completion = both[len(prompt) :] if together else self._encode(row.completion)
        return [(prompt, False), ([*completion, self.stop_ids[0]], True)]

    def _chat_segments(self, row: ChatRow) -> list[Segment]:
        """What is read and what is written, in turn. An answer ends with its last stop token."""
        segments: list[Segment] = []
        turns = self._turns(row)
        for number, (text, is_learned) in enumerate(turns, start=1):
            ids = self._encode(text)
            if not is_learned:
                segments.append((ids, False))
                continue
            end = max((at for at, token in enumerate(ids, start=1) if token in self.stop_ids), default=0)
            if not end and number == len(turns):
                # This template writes no stop token, without which a model would never end.
                ids = [*self._encode(text.rstrip()), self.stop_ids[0]]
            end = end or len(ids)
            segments += [(ids[:end], True), (ids[end:], False)]
        return segments

    def _turns(self, row: ChatRow) -> list[tuple[str, bool]]:
        """The text in parts, with whether each is learned.

        Some templates write earlier answers otherwise than the last one, such as without its reasoning. Of
        their conversations only the last answer is learned, as it is the only one that serving sees like
        this.
        """
        try:
            turns = list(self._parts(row, range(len(row.messages))))
            if not turns:
                turns = list(self._parts(row, range(len(row.messages) - 1, len(row.messages))))
        except HplmError as error:
            raise HplmError("malformed_row", f"a conversation cannot be written: {error.message}") from error
        if not turns:
            raise HplmError(
                "malformed_row",
                "the chat template of this root writes an answer otherwise than it opens it, so that nothing "
                "can be learned from conversations",
            )
        return turns

    def _parts(self, row: ChatRow, answers: range) -> Iterator[tuple[str, bool]]:
        """The parts around these answers; none if the template rewrites what it wrote before."""
        parts, done = [], ""
        for index in answers:
            if index == 0 or row.messages[index].role != ASSISTANT:
                continue
            opened = self.render(row.messages[:index], True)
            closed = self.render(row.messages[: index + 1], False)
            if not opened.startswith(done) or not closed.startswith(opened):
                return
            parts += [(opened[len(done) :], False), (closed[len(opened) :], row.messages[index].learned)]
            done = closed
        yield from parts

    def _encode(self, text: str, *, special: bool = False) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=special).ids)
