"""Answers to the prompts of a split: what the report shows, and what the metrics compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch

from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.decoder.lora import DecoderLora
from inference.errors import HplmError
from inference.hplm.sequences import PackedSequences
from workers.training.generative.lora_parameters import LoraParameters
from workers.training.generative.rows import Row
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.progress import Reporter

STAGE: Final = "generate"
PROMPTS_PER_CALL: Final = 16
MAX_SHOWN: Final = 2_000
"""Characters of each text of a sample in a report."""


class Generate(Protocol):
    """What writes completions: a loop here, or a generation engine."""

    def __call__(
        self, prompts: Sequence[Sequence[int]], lora: DecoderLora, max_tokens: int
    ) -> list[list[int]]:
        """The greedy completion of each prompt with this LoRA: at most `max_tokens` token ids, without the
        stop token."""
        ...


class GreedyLoop:
    """Greedy completions without a cache: each token computes its whole sequence again.

    For a few short samples; the time grows with the square of their length.
    """

    def __init__(self, decoder: Decoder, stop_ids: Sequence[int], reporter: Reporter) -> None:
        self._decoder, self._stop_ids, self._reporter = decoder, frozenset(stop_ids), reporter

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[Sequence[int]], lora: DecoderLora, max_tokens: int
    ) -> list[list[int]]:
        deltas = LoraParameters(lora.tensors).to(self._decoder.device).eval()
        completions: list[list[int]] = [[] for _ in prompts]
        unfinished = list(range(len(prompts)))
        for _ in range(max_tokens):
            if not unfinished:
                break
            self._reporter.raise_if_cancelled()
            known = [[*prompts[index], *completions[index]] for index in unfinished]
            following = self._next_tokens(known, deltas)
            for index, token in zip(unfinished, following, strict=True):
                if token not in self._stop_ids:
                    completions[index].append(token)
            unfinished = [
                index
                for index, token in zip(unfinished, following, strict=True)
                if token not in self._stop_ids and self._fits(prompts[index], completions[index])
            ]
        return completions

    def _next_tokens(self, sequences: Sequence[Sequence[int]], deltas: LoraParameters) -> list[int]:
        layout = PackedSequences(tuple(map(len, sequences)))
        token_ids = torch.tensor([token for one in sequences for token in one], device=self._decoder.device)
        logits = self._decoder.forward(
            token_ids,
            torch.from_numpy(layout.positions).to(self._decoder.device),
            DenseAttention(layout),
            deltas,
            torch.from_numpy(layout.ends - 1).to(self._decoder.device),
        )
        found: list[int] = logits.argmax(-1).tolist()
        return found

    def _fits(self, prompt: Sequence[int], completion: Sequence[int]) -> bool:
        return len(prompt) + len(completion) <= self._decoder.architecture.positions


Prompts = Mapping[tuple[int, ...], Sequence[str]]
"""Token ids of distinct prompts, each with the texts that a good model writes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A generated text, its prompt as the model reads it, and the texts that a good model writes."""

    prompt: str
    text: str
    references: Sequence[str]

    def to_json(self) -> dict[str, str]:
        """The answer for a report, with one reference; long texts are truncated."""
        texts = {"prompt": self.prompt, "answer": self.text, "reference": self.references[0]}
        return {name: text[:MAX_SHOWN] for name, text in texts.items()}


def prompts_of_test(
    rows: Sequence[Row], tokenizer: GenerativeTokenizer, limit: int, reporter: Reporter
) -> Prompts:
    """The distinct prompts of the rows that fit into the context, or `limit` of them from the whole split.

    Rows with the same prompt are references of one answer. Raises HplmError("too_few_rows") if none fits.
    """
    references: dict[tuple[int, ...], list[str]] = {}
    for number, row in enumerate(rows):
        if number % PROMPTS_PER_CALL == 0:
            reporter.raise_if_cancelled()
        prompt = tuple(tokenizer.prompt(row))
        if len(prompt) <= tokenizer.max_tokens:
            references.setdefault(prompt, []).append(row.reference)
    if not references:
        raise HplmError("too_few_rows", f"No prompt of test is within {tokenizer.max_tokens} tokens.")
    prompts = list(references)
    count = min(limit, len(prompts))
    chosen = np.linspace(0, len(prompts), count, endpoint=False).astype(int).tolist()
    return {prompts[index]: references[prompts[index]] for index in chosen}


def generate_answers(
    prompts: Prompts,
    tokenizer: GenerativeTokenizer,
    generate: Generate,
    lora: DecoderLora,
    max_tokens: int,
    reporter: Reporter,
) -> list[Answer]:
    """An answer of at most `max_tokens` tokens to each prompt."""
    reporter.start_stage(STAGE, len(prompts))
    waiting, answers = list(prompts), list[Answer]()
    for start in range(0, len(waiting), PROMPTS_PER_CALL):
        reporter.raise_if_cancelled()
        group = waiting[start : start + PROMPTS_PER_CALL]
        completions = generate(group, lora, max_tokens)
        answers += [
            Answer(tokenizer.decode(prompt), tokenizer.decode(completion), prompts[prompt])
            for prompt, completion in zip(group, completions, strict=True)
        ]
        reporter.report(len(answers))
    return answers
