"""A corpus split into training and held-out batches, and the sample of general text kept with a root."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from inference.hplm.artifact_files import read_weights, write_weights
from workers.training.checkpoints import seeded_rng
from workers.training.corpus import Corpus, CorpusReader, Ids, no_check
from workers.training.sequences import TokenSequence, draw_sequences, make_batches

# Keys of random draws: the split, the held-out sample, the counted texts. Stages have smaller numbers.
_SPLIT, _HELD_OUT, _TO_COUNT = 1000, 1001, 1002


@dataclass(frozen=True)
class TrainingCorpus:
    """train, held_out: the numbers of the texts in each part. check: called for every few texts read, because
    drawing millions of tokens takes minutes.
    """

    corpus: Corpus
    reader: CorpusReader
    train: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.int64]
    batch_tokens: int
    seed: int
    check: Callable[[], None] = no_check

    @classmethod
    def split(
        cls,
        corpus: Corpus,
        reader: CorpusReader,
        *,
        held_out_share: float,
        batch_tokens: int,
        seed: int,
        check: Callable[[], None] = no_check,
    ) -> "TrainingCorpus":
        """Hold out a random share of the texts, at least one and at most half."""
        count = max(1, min(len(corpus) // 2, round(held_out_share * len(corpus))))
        held_out = np.zeros(len(corpus), dtype=bool)
        held_out[seeded_rng(seed, _SPLIT).choice(len(corpus), size=count, replace=False)] = True
        return cls(
            corpus, reader, np.flatnonzero(~held_out), np.flatnonzero(held_out), batch_tokens, seed, check
        )

    def train_batches(self, tokens: int, *, stage: int, cycle: int = 0) -> list[list[TokenSequence]]:
        """Training batches of about `tokens` tokens, drawn anew for each stage and each cycle of a stage."""
        return self._batches(self.train, tokens, seeded_rng(self.seed, stage, cycle))

    def held_out_batches(self, tokens: int) -> list[list[TokenSequence]]:
        """Batches of about `tokens` tokens that no stage trains on."""
        return self._batches(self.held_out, tokens, seeded_rng(self.seed, _HELD_OUT))

    def sequences_to_count(self, tokens: int) -> Iterator[Ids]:
        """The sequences of random training texts, of about `tokens` tokens: to count fragments in."""
        total = 0
        order = seeded_rng(self.seed, _TO_COUNT).permutation(self.train)
        for sequence in self.reader.sequences(self.corpus.texts(order)):
            self.check()
            yield sequence
            total += len(sequence)
            if total >= tokens:
                return

    def _batches(
        self, numbers: npt.NDArray[np.int64], tokens: int, rng: np.random.Generator
    ) -> list[list[TokenSequence]]:
        sequences = draw_sequences(
            self.corpus, numbers, self.reader, tokens=tokens, rng=rng, check=self.check
        )
        return make_batches(sequences, batch_tokens=self.batch_tokens, rng=rng)


@dataclass
class BatchSampler:
    """The batches of one training stage, drawn anew when they are used up (a budget of minutes may do so)."""

    corpus: TrainingCorpus
    tokens: int
    stage: int
    _cycle: int = 0
    _batches: list[list[TokenSequence]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._batches = self.corpus.train_batches(self.tokens, stage=self.stage) if self.tokens else []
        self._length = len(self._batches)

    def __len__(self) -> int:
        """The number of batches in a cycle."""
        return self._length

    @property
    def batches(self) -> list[list[TokenSequence]]:
        """The batches of the current cycle."""
        return self._batches

    def batch(self, step: int) -> list[TokenSequence]:
        """The batch of a step, counted from 0; the same at every call."""
        cycle, index = divmod(step, self._length)
        if cycle != self._cycle:
            self._batches = self.corpus.train_batches(self.tokens, stage=self.stage, cycle=cycle)
            self._cycle = cycle
        return self._batches[index % len(self._batches)]


GENERAL_TEXT_FILE = "general_text.safetensors"


def write_general_text(root: Path, batches: Sequence[list[TokenSequence]]) -> None:
    """Write the sequences of these batches to the root's folder."""
    sequences = [one for batch in batches for one in batch]
    parts = {
        "ids": np.concatenate([one.ids for one in sequences]),
        "types": np.concatenate([one.types for one in sequences]),
        "lengths": np.asarray([len(one) for one in sequences], dtype=np.int64),
    }
    write_weights(root / GENERAL_TEXT_FILE, {name: torch.from_numpy(part) for name, part in parts.items()})


def read_general_text(root: Path) -> list[TokenSequence]:
    """The sequences that `write_general_text` wrote; none where it did not."""
    if not (root / GENERAL_TEXT_FILE).is_file():
        return []
    parts = {name: part.numpy() for name, part in read_weights(root / GENERAL_TEXT_FILE).items()}
    cuts = np.cumsum(parts["lengths"])[:-1]
    pairs = zip(np.split(parts["ids"], cuts), np.split(parts["types"], cuts), strict=True)
    return [TokenSequence(ids, types) for ids, types in pairs]
