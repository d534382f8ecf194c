"""Sequences a root or domain learns from, cut from a corpus, and batches of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.errors import HplmError
from inference.hplm.families import FAMILIES
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Corpus, CorpusReader, Ids, unchecked

# Texts by themselves are cut to this many ids; only packed sequences are longer.
LONGEST_ALONE = 128
SHORTEST_PACKED = 64
# The share of the tokens that stands in packed sequences.
PACKED_SHARE = 0.5
# Of the packed sequences, the share that is framed as two texts.
PAIR_SHARE = 0.3
# A corpus smaller than the budget is seen at most this many times.
MAX_PASSES = 8


@dataclass(frozen=True, eq=False)
class Framed:
    """A sequence as the root reads it: ids [T] int64 with the special tokens around, types [T] int64."""

    ids: Ids
    types: Ids

    def __len__(self) -> int:
        return len(self.ids)


def alone(ids: Ids) -> Framed:
    """A framed sequence of one text."""
    return Framed(ids, np.zeros_like(ids))


def pair(first: Ids, second: Ids, config: RootConfig) -> Framed:
    """Plain ids of two texts, framed as the root's family frames a pair."""
    separators = FAMILIES[config.family].specials.separators
    between = np.full(separators, config.sep_id, dtype=np.int64)
    ids = np.concatenate(([config.cls_id], first, between, second, [config.sep_id])).astype(np.int64)
    types = np.zeros(len(ids), dtype=np.int64)
    if config.type_count > 1:
        types[1 + len(first) + separators :] = 1
    return Framed(ids, types)


def draw_sequences(
    corpus: Corpus,
    numbers: npt.NDArray[np.int64],
    reader: CorpusReader,
    *,
    tokens: int,
    rng: np.random.Generator,
    check: Callable[[], None] = unchecked,
) -> list[Framed]:
    """About `tokens` ids in shuffled sequences of at most the root's maximum.

    A share of the tokens comes from neighbouring texts packed into one sequence of random length up to that,
    because otherwise a corpus of short texts would teach nothing about far positions; some of these are
    framed as a pair. check: called before each draw. Raises HplmError("corpus_too_small") when the texts give
    no sequence at all.
    """
    longest = reader.config.max_tokens
    drawn: list[Framed] = []
    total = 0
    for _ in range(MAX_PASSES):
        for start in rng.permutation(len(numbers)):
            if total >= tokens:
                return drawn
            check()
            if rng.random() < PACKED_SHARE / _mean_ratio(longest):
                goal = round(float(np.exp(rng.uniform(np.log(SHORTEST_PACKED), np.log(max(longest, 65))))))
                ids = _neighbours(corpus, numbers[start:], reader, min(goal, longest) - 2)
                new = _packed(ids, reader, rng)
            else:
                new = _alone(corpus, numbers[start : start + 1], reader, min(LONGEST_ALONE, longest))
            drawn.extend(new)
            total += sum(map(len, new))
    if not drawn:
        raise HplmError("corpus_too_small", "The texts of the corpus hold no token that the model knows.")
    return drawn


def _mean_ratio(longest: int) -> float:
    """How much longer a packed sequence is than a text by itself, roughly: packing is drawn that much
    rarer.
    """
    return max(1.0, min(longest, 256) / 32)


def _alone(
    corpus: Corpus, numbers: npt.NDArray[np.int64], reader: CorpusReader, longest: int
) -> list[Framed]:
    (text,) = corpus.texts(numbers)
    # A very long text gives its first pieces only: no text may outweigh the others.
    return [alone(ids) for ids in reader.framed(reader.plain(text)[: 8 * longest], longest)]


def _neighbours(corpus: Corpus, numbers: npt.NDArray[np.int64], reader: CorpusReader, length: int) -> Ids:
    parts: list[Ids] = []
    total = 0
    for text in corpus.texts(numbers[:length]):
        parts.append(reader.plain(text))
        total += len(parts[-1])
        if total >= length:
            break
    return np.concatenate(parts)[:length]


def _packed(ids: Ids, reader: CorpusReader, rng: np.random.Generator) -> list[Framed]:
    config = reader.config
    separators = FAMILIES[config.family].specials.separators
    room = len(ids) - separators
    if room < 2 or rng.random() >= PAIR_SHARE:
        return [alone(one) for one in reader.framed(ids, len(ids) + 2)] if len(ids) else []
    cut = int(rng.integers(1, room))
    return [pair(ids[:cut], ids[cut:room], config)]


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences padded to one length, and their fragments without repetition.

    ids and types [B, T] int64 and mask [B, T] bool on the CPU; lengths [B] int64; fragments [N, n] int64
    (numpy), those of all tokens, one sequence after the other; unique [U, n] int64 (numpy), what is read;
    where [B, T] int64, the row of `unique` that each token's fragment is (0 at padding).
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    lengths: Tensor
    fragments: Ids
    unique: Ids
    where: Tensor

    def reading(self, read: Ids) -> "Batch":
        """The same batch with `read` [N, n] looked up in place of its own fragments, as fall-back does."""
        _, unique, inverse = fragments.unique(read)
        where = torch.zeros_like(self.ids)
        where[self.mask] = torch.from_numpy(inverse)
        return Batch(self.ids, self.types, self.mask, self.lengths, self.fragments, unique, where)


def make_batch(sequences: Sequence[Framed], config: RootConfig) -> Batch:
    """Pad the sequences and find their unique fragments."""
    lengths = np.asarray([len(one) for one in sequences], dtype=np.int64)
    mask = np.arange(int(lengths.max()))[None, :] < lengths[:, None]
    ids = np.full(mask.shape, config.pad_id, dtype=np.int64)
    types = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate([one.ids for one in sequences])
    types[mask] = np.concatenate([one.types for one in sequences])
    whole = np.concatenate([fragments.extract(one.ids, config.missing_id, config.n) for one in sequences])
    _, unique, inverse = fragments.unique(whole)
    where = np.zeros(mask.shape, dtype=np.int64)
    where[mask] = inverse
    return Batch(
        ids=torch.from_numpy(ids),
        types=torch.from_numpy(types),
        mask=torch.from_numpy(mask),
        lengths=torch.from_numpy(lengths),
        fragments=whole,
        unique=unique,
        where=torch.from_numpy(where),
    )


def batches_of(
    sequences: list[Framed], *, batch_tokens: int, rng: np.random.Generator | None
) -> list[list[Framed]]:
    """Group sequences of like length so that each padded batch holds at most `batch_tokens` ids.

    With `rng` the batches are shuffled and sequences of like length are mixed; without, they go by length.
    """
    groups = index_batches([len(one) for one in sequences], batch_tokens, rng)
    return [[sequences[i] for i in group] for group in groups]


def index_batches(
    lengths: Sequence[int], batch_tokens: int, rng: np.random.Generator | None
) -> list[list[int]]:
    """As `batches_of`, giving the places of sequences of these lengths."""
    sizes = np.asarray(lengths)
    # A little noise on the length mixes neighbours from pass to pass without costing much padding.
    noise = rng.uniform(0.9, 1.1, len(sizes)) if rng is not None else np.ones(len(sizes))
    groups = list(_filled(np.argsort(sizes * noise, kind="stable"), sizes, batch_tokens))
    if rng is not None:
        rng.shuffle(groups)
    return groups


def _filled(
    order: npt.NDArray[np.intp], lengths: npt.NDArray[np.int64], batch_tokens: int
) -> Iterator[list[int]]:
    group: list[int] = []
    widest = 0
    for index in order:
        widened = max(widest, int(lengths[index]))
        if group and widened * (len(group) + 1) > batch_tokens:
            yield group
            group, widened = [], int(lengths[index])
        group.append(int(index))
        widest = widened
    if group:
        yield group
