"""A corpus as training reads it: batches to learn from, held-out batches, and a root's general text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from inference.hplm.artifact_files import read_weights, write_weights
from inference.hplm.root import GENERAL_TEXT_FILE
from workers.training.checkpoints import draws
from workers.training.corpus import Corpus, CorpusReader, Ids, unchecked
from workers.training.sequences import Framed, batches_of, draw_sequences

# Of the draws of a job: the split, the held-out sample, and what is counted; stages of training come after.
_SPLIT, _HELD_OUT, _COUNTED = 1000, 1001, 1002


@dataclass(frozen=True)
class TrainingTexts:
    """learn, kept: numbers of the texts of either part, in the order of the corpus. check: called with every
    few texts that are read; drawing millions of tokens takes minutes.
    """

    corpus: Corpus
    reader: CorpusReader
    learn: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    batch_tokens: int
    seed: int
    check: Callable[[], None] = unchecked

    @classmethod
    def split(
        cls,
        corpus: Corpus,
        reader: CorpusReader,
        *,
        held_out_share: float,
        batch_tokens: int,
        seed: int,
        check: Callable[[], None] = unchecked,
    ) -> "TrainingTexts":
        """Keep a random share of the texts apart, at least one and at most half."""
        count = max(1, min(len(corpus) // 2, round(held_out_share * len(corpus))))
        apart = np.zeros(len(corpus), dtype=bool)
        apart[draws(seed, _SPLIT).choice(len(corpus), size=count, replace=False)] = True
        return cls(corpus, reader, np.flatnonzero(~apart), np.flatnonzero(apart), batch_tokens, seed, check)

    def to_learn(self, tokens: int, *, stage: int, cycle: int = 0) -> list[list[Framed]]:
        """About `tokens` tokens, drawn differently for every stage of a job and every cycle of a stage."""
        return self._batches(self.learn, tokens, draws(self.seed, stage, cycle))

    def held_out(self, tokens: int) -> list[list[Framed]]:
        """About `tokens` tokens that no stage learns from."""
        return self._batches(self.kept, tokens, draws(self.seed, _HELD_OUT))

    def counted(self, tokens: int) -> Iterator[Ids]:
        """Whole texts to learn from, framed each, until there are `tokens` tokens: to count fragments in."""
        total = 0
        order = draws(self.seed, _COUNTED).permutation(self.learn)
        for sequence in self.reader.sequences(self.corpus.texts(order)):
            self.check()
            yield sequence
            total += len(sequence)
            if total >= tokens:
                return

    def _batches(
        self, numbers: npt.NDArray[np.int64], tokens: int, rng: np.random.Generator
    ) -> list[list[Framed]]:
        sequences = draw_sequences(
            self.corpus, numbers, self.reader, tokens=tokens, rng=rng, check=self.check
        )
        return batches_of(sequences, batch_tokens=self.batch_tokens, rng=rng)


@dataclass
class Course:
    """The batches of one stage, drawn anew when they are used up (as a budget of minutes may do)."""

    texts: TrainingTexts
    tokens: int
    stage: int
    _cycle: int = 0
    _groups: list[list[Framed]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._groups = self.texts.to_learn(self.tokens, stage=self.stage) if self.tokens else []
        self._length = len(self._groups)

    def __len__(self) -> int:
        """Batches of one cycle."""
        return self._length

    @property
    def batches(self) -> list[list[Framed]]:
        """Those of the present cycle."""
        return self._groups

    def batch(self, step: int) -> list[Framed]:
        """The batch of that step, counted from 0; the same whenever it is asked for."""
        cycle, place = divmod(step, self._length)
        if cycle != self._cycle:
            self._groups = self.texts.to_learn(self.tokens, stage=self.stage, cycle=cycle)
            self._cycle = cycle
        return self._groups[place % len(self._groups)]


def write_general(root: Path, groups: Sequence[list[Framed]]) -> None:
    """Write the sequences of these batches into the root's folder."""
    sequences = [one for group in groups for one in group]
    parts = {
        "ids": np.concatenate([one.ids for one in sequences]),
        "types": np.concatenate([one.types for one in sequences]),
        "lengths": np.asarray([len(one) for one in sequences], dtype=np.int64),
    }
    write_weights(root / GENERAL_TEXT_FILE, {name: torch.from_numpy(part) for name, part in parts.items()})


def read_general(root: Path) -> list[Framed]:
    """The sequences; none where the root came without."""
    if not (root / GENERAL_TEXT_FILE).is_file():
        return []
    parts = {name: part.numpy() for name, part in read_weights(root / GENERAL_TEXT_FILE).items()}
    cuts = np.cumsum(parts["lengths"])[:-1]
    pairs = zip(np.split(parts["ids"], cuts), np.split(parts["types"], cuts), strict=True)
    return [Framed(ids, types) for ids, types in pairs]
