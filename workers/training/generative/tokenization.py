"""Tokenises rows of generative datasets, and marks the tokens that the model learns to write."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from inference.errors import HplmError
from inference.text.detokenizer import Detokenizer
from inference.text.prompts import PromptTokenizer
from workers.training.generative.packing import Ids, TrainingSequence
from workers.training.generative.rows import ASSISTANT, ChatRow, PromptRow, Row

Learned = npt.NDArray[np.bool_]
"""For each token, whether the model learns to write it."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """An answer in a conversation: the text up to where it begins, and with it."""

    opened: str
    closed: str
    is_learned: bool


@dataclass(frozen=True, slots=True)
class GenerativeTokenizer:
    """The tokenizer and the chat template of a root, as serving uses them.

    stop_ids: the tokens that end an answer; completions of prompts end with the first. max_tokens: longer
    rows lose their end. now: the date for templates that write it.
    """

    prompts: PromptTokenizer
    detokenizer: Detokenizer
    stop_ids: tuple[int, ...]
    max_tokens: int
    now: datetime

    def prompt(self, row: Row) -> list[int]:
        """The tokens after which a model writes the row's reference: those of serving."""
        if isinstance(row, PromptRow):
            return self.prompts.encode_text(row.prompt)
        return self.prompts.encode_chat([message.chat for message in row.messages[:-1]], now=self.now)

    def sequence(self, row: Row) -> TrainingSequence | None:
        """The row up to the last token that is learned; None if none is within `max_tokens`.

        Raises HplmError(malformed_row) for a conversation that the chat template refuses or cannot continue.
        """
        ids, learned = self._prompt_ids(row) if isinstance(row, PromptRow) else self._chat_ids(row)
        # The first token is read, never written.
        found = np.flatnonzero(learned[1 : self.max_tokens + 1])
        if not len(found):
            return None
        end = int(found[-1]) + 1
        # What follows the last learned token is no loss.
        truncated = bool(learned[self.max_tokens + 1 :].any())
        return TrainingSequence(ids[: end + 1], learned[1 : end + 1], truncated)

    def decode(self, ids: Sequence[int], after: Sequence[int] = ()) -> str:
        """The text of tokens that follow those of `after`, as serving writes it."""
        stream = self.detokenizer.stream(after)
        return stream.push(ids) + stream.finish()

    def _prompt_ids(self, row: PromptRow) -> tuple[Ids, Learned]:
        """The prompt has the tokens that it has in serving, whatever follows it."""
        prompt = self.prompts.encode_text(row.prompt)
        both = self.prompts.encode_text(row.prompt + row.completion)
        # Together, as a completion may not begin like a text of its own. Tokens across the border are split.
        together = both[: len(prompt)] == prompt
        completion = both[len(prompt) :] if together else self.prompts.encode_rendered(row.completion)
        ids = [*prompt, *completion, self.stop_ids[0]]
        return np.asarray(ids, dtype=np.int64), np.arange(len(ids)) >= len(prompt)

    def _chat_ids(self, row: ChatRow) -> tuple[Ids, Learned]:
        """The conversation, up to the end of its last answer. An answer is learned where the tokens before it
        are those of serving."""
        turns = self._turns(row)
        prompt = self.prompts.encode_rendered(turns[-1].opened)
        ids = [*prompt, *self._answer(turns[-1], prompt)]
        learned = np.zeros(len(ids), dtype=np.bool_)
        learned[len(prompt) :] = turns[-1].is_learned
        for turn in turns[:-1]:
            if turn.is_learned:
                learned[self._place(turn, prompt)] = True
        return np.asarray(ids, dtype=np.int64), learned

    def _answer(self, turn: _Turn, prompt: list[int]) -> list[int]:
        """The tokens of the last answer, up to its last stop token."""
        answer = self._continuation(turn.opened, turn.closed, prompt)
        end = self._end(answer)
        if end:
            return answer[:end]
        # This template writes no stop token, without which a model would never end.
        return [*self._continuation(turn.opened, turn.closed.rstrip(), prompt), self.stop_ids[0]]

    def _continuation(self, opened: str, closed: str, prompt: list[int]) -> list[int]:
        """The tokens that follow the prompt. One across the border is split."""
        whole = self.prompts.encode_rendered(closed)
        if whole[: len(prompt)] == prompt:
            return whole[len(prompt) :]
        return self.prompts.encode_rendered(closed[len(opened) :])

    def _place(self, turn: _Turn, ids: list[int]) -> slice:
        """Where the tokens of an earlier answer lie: nowhere if serving has others before it."""
        before, through = (self.prompts.encode_rendered(text) for text in (turn.opened, turn.closed))
        if ids[: len(before)] != before:
            return slice(0)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids, through, strict=False)))
        answer = ids[len(before) : common]
        return slice(len(before), len(before) + (self._end(answer) or len(answer)))

    def _end(self, answer: Sequence[int]) -> int:
        """The number of tokens up to the last stop token; 0 if there is none."""
        return max((at for at, token in enumerate(answer, start=1) if token in self.stop_ids), default=0)

    def _turns(self, row: ChatRow) -> list[_Turn]:
        """The answers of the assistant.

        Some templates write earlier answers otherwise than the last one, such as without its reasoning. Of
        their conversations only the last answer is learned, as it is the only one that serving sees like
        this.
        """
        try:
            turns = list(self._answers(row, range(len(row.messages))))
            if not turns:
                turns = list(self._answers(row, range(len(row.messages) - 1, len(row.messages))))
        except HplmError as error:
            raise HplmError("malformed_row", f"a conversation cannot be written: {error.message}") from error
        if not turns:
            raise HplmError(
                "malformed_row",
                "the chat template of this root writes an answer otherwise than it opens it, so that nothing "
                "can be learned from conversations",
            )
        return turns

    def _answers(self, row: ChatRow, indices: range) -> Iterator[_Turn]:
        """These of the messages that are answers; none if the template rewrites what it wrote before."""
        turns, done = list[_Turn](), ""
        messages = [message.chat for message in row.messages]
        for index in indices:
            if index == 0 or row.messages[index].role != ASSISTANT:
                continue
            opened = self.prompts.render_chat(messages[:index], now=self.now)
            closed = self.prompts.render_chat(messages[: index + 1], now=self.now, open_turn=False)
            if not opened.startswith(done) or not closed.startswith(opened):
                return
            turns.append(_Turn(opened, closed, row.messages[index].learned))
            done = closed
        yield from turns
