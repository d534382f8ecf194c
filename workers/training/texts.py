"""A corpus as training reads it: a part to learn from and a part kept apart, in batches of sequences."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workers.training.corpus import Corpus, CorpusReader, Ids
from workers.training.sequences import batches_of, draw_sequences


@dataclass(frozen=True)
class TrainingTexts:
    """learn, kept: numbers of the texts of either part, in the order of the corpus."""

    corpus: Corpus
    reader: CorpusReader
    learn: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    batch_tokens: int
    seed: int

    @classmethod
    def split(
        cls, corpus: Corpus, reader: CorpusReader, *, held_out_share: float, batch_tokens: int, seed: int
    ) -> "TrainingTexts":
        """Keep a random share of the texts apart, at least one and at most half."""
        count = max(1, min(len(corpus) // 2, round(held_out_share * len(corpus))))
        apart = np.zeros(len(corpus), dtype=bool)
        apart[np.random.default_rng(seed).choice(len(corpus), size=count, replace=False)] = True
        return cls(corpus, reader, np.flatnonzero(~apart), np.flatnonzero(apart), batch_tokens, seed)

    def to_learn(self, tokens: int, *, stage: int) -> list[list[Ids]]:
        """About `tokens` tokens, drawn differently for every stage of a job."""
        return self._batches(self.learn, tokens, self.seed + stage)

    def held_out(self, tokens: int) -> list[list[Ids]]:
        """About `tokens` tokens that no stage learns from."""
        return self._batches(self.kept, tokens, self.seed)

    def _batches(self, numbers: npt.NDArray[np.int64], tokens: int, seed: int) -> list[list[Ids]]:
        sequences = draw_sequences(self.corpus, numbers, self.reader, tokens=tokens, seed=seed)
        return batches_of(sequences, batch_tokens=self.batch_tokens, seed=seed)
