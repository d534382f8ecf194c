"""Texts of a domain's corpus, to fit on and held out, and texts that the root generates."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import tokenizers

from benchmarks.accuracy.data import corpus
from benchmarks.accuracy.hgpt.fragments import Ids
from benchmarks.accuracy.hgpt.root import HgptRoot
from benchmarks.accuracy.hgpt.texts import Texts
from inference.generation.offline import complete
from inference.generation.requests import SamplingParams
from workers.training.checkpoints import seeded_rng
from workers.training.corpus import read_corpus
from workers.training.progress import Reporter

WINDOW: Final = 128
"""Tokens of a text."""
HELD_OUT_SHARE: Final = 0.05
"""Of the corpus' lines: its last ones."""
LINES_PER_BATCH: Final = 1000
PROMPT: Final = 16
"""Tokens of the corpus that the root continues."""
DRAW: Final = 2
"""Of text, among the random draws of the benchmark."""


@dataclass(frozen=True)
class DomainCorpus:
    """A corpus as one stretch of tokens, of which the last ones are held out."""

    name: str
    tokenizer: tokenizers.Tokenizer
    seed: int

    @cached_property
    def _parts(self) -> tuple[Ids, Ids]:
        texts = list(read_corpus(corpus(self.name)).texts())
        cut = len(texts) - max(1, round(HELD_OUT_SHARE * len(texts)))
        return self._read(texts[:cut]), self._read(texts[cut:])

    @property
    def train(self) -> Ids:
        """All tokens that are not held out."""
        return self._parts[0]

    def fit_texts(self, tokens: int) -> Texts:
        """About so many tokens of the training part, in windows drawn without replacement."""
        return _windows(self.train, tokens, self.seed)

    def held_out_texts(self, tokens: int) -> Texts:
        """The same of the held-out part."""
        return _windows(self._parts[1], tokens, self.seed)

    def _read(self, texts: list[str]) -> Ids:
        """The tokens of these lines, with a space between them."""
        starts = range(0, len(texts), LINES_PER_BATCH)
        batches = (texts[start : start + LINES_PER_BATCH] for start in starts)
        return np.concatenate([ids for batch in batches for ids in self._encoded(batch)])

    def _encoded(self, texts: list[str]) -> Iterator[Ids]:
        spaced = [f" {text}" for text in texts]
        for one in self.tokenizer.encode_batch_fast(spaced, add_special_tokens=False):
            yield np.asarray(one.ids, dtype=np.int64)


def _windows(stream: Ids, tokens: int, seed: int) -> Texts:
    count = len(stream) // WINDOW
    order = seeded_rng(seed, DRAW).permutation(count)[: -(-tokens // WINDOW)]
    return Texts(tuple(stream[at * WINDOW : (at + 1) * WINDOW] for at in order.tolist()))


def generated_texts(root: HgptRoot, domain: DomainCorpus, tokens: int, reporter: Reporter) -> Texts:
    """About so many tokens: beginnings of training windows, and what the root writes behind them at
    temperature 1."""
    texts = domain.fit_texts(tokens).ids
    prompts = [ids[:PROMPT].tolist() for ids in texts]
    reporter.start_stage("generate", len(prompts))
    generated = complete(
        root.decoder,
        None,
        prompts,
        SamplingParams(max_tokens=WINDOW - PROMPT, temperature=1.0, seed=domain.seed),
        context=WINDOW,
        after_step=reporter.report,
    )
    pairs = zip(prompts, generated, strict=True)
    return Texts(tuple(np.asarray([*prompt, *rest], dtype=np.int64) for prompt, rest in pairs))
