"""Answers to the prompts of a split: what pages show, and what the metrics compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.errors import HplmError
from inference.generation.offline import complete
from inference.generation.requests import SamplingParams
from workers.training.generative.metrics import TextScore
from workers.training.generative.rows import Row
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.progress import Reporter
from workers.training.tasks.base import EvaluatedRow

STAGE: Final = "generate"
ROWS_PER_CHECK: Final = 16
MAX_SHOWN: Final = 2_000
"""Characters of each text of a stored answer."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of a prompt, the index of the first row that has it, and the texts that a good model writes:
    those of all rows that have it."""

    ids: tuple[int, ...]
    row: int
    references: list[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A generated text, its prompt as the model reads it, the texts that a good model writes, and the index
    of the row."""

    prompt: str
    text: str
    references: Sequence[str]
    row: int

    def to_json(self) -> dict[str, str]:
        """The answer for a report, with one reference; long texts are truncated."""
        texts = {"prompt": self.prompt, "answer": self.text, "reference": self.references[0]}
        return {name: text[:MAX_SHOWN] for name, text in texts.items()}

    def evaluated(self, score: TextScore) -> EvaluatedRow:
        """The answer as evaluations store it, with the closest reference; long texts are truncated."""
        return EvaluatedRow(score.reference[:MAX_SHOWN], self.text[:MAX_SHOWN], None, score.rouge_l)


def prompts_of_test(
    rows: Sequence[Row], tokenizer: GenerativeTokenizer, limit: int, reporter: Reporter
) -> list[Prompt]:
    """The prompts of `split_prompts`. Raises HplmError("too_few_rows") if there is none."""
    prompts = split_prompts(rows, tokenizer, limit, reporter)
    if not prompts:
        raise HplmError(
            "too_few_rows", f"No prompt of test leaves room for an answer in {tokenizer.max_tokens} tokens."
        )
    return prompts


def split_prompts(
    rows: Sequence[Row], tokenizer: GenerativeTokenizer, limit: int, reporter: Reporter
) -> list[Prompt]:
    """The distinct prompts of the rows that leave room for an answer, or `limit` of them from the whole
    split.

    Rows with the same prompt are references of one answer.
    """
    found: dict[tuple[int, ...], Prompt] = {}
    for number, row in enumerate(rows):
        if number % ROWS_PER_CHECK == 0:
            reporter.raise_if_cancelled()
        ids = tuple(tokenizer.prompt(row))
        if 0 < len(ids) < tokenizer.max_tokens:
            found.setdefault(ids, Prompt(ids, number, [])).references.append(row.reference)
    prompts = list(found.values())
    count = min(limit, len(prompts))
    chosen = np.linspace(0, len(prompts), count, endpoint=False).astype(int).tolist()
    return [prompts[index] for index in chosen]


def generate_answers(
    prompts: Sequence[Prompt],
    tokenizer: GenerativeTokenizer,
    decoder: Decoder,
    lora: DecoderLora,
    *,
    context: int,
    max_tokens: int,
    reporter: Reporter,
) -> list[Answer]:
    """A greedy answer of at most `max_tokens` tokens to each prompt, by the engine that serves.

    context: most tokens of a prompt and its answer.
    """
    reporter.start_stage(STAGE, len(prompts))

    def report(ended: int) -> None:
        reporter.raise_if_cancelled()
        reporter.report(ended)

    completions = complete(
        decoder,
        lora,
        [prompt.ids for prompt in prompts],
        SamplingParams(max_tokens=max_tokens, temperature=0.0, stop_tokens=frozenset(tokenizer.stop_ids)),
        context=context,
        after_step=report,
    )
    return [
        Answer(
            tokenizer.decode(prompt.ids),
            tokenizer.decode(completion, prompt.ids),
            prompt.references,
            prompt.row,
        )
        for prompt, completion in zip(prompts, completions, strict=True)
    ]
