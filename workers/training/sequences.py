"""Sequences a root or domain learns from, cut from a corpus, and batches of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.errors import HplmError
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Corpus, CorpusReader, Ids

# Texts by themselves are cut to this many ids; only packed sequences are longer.
LONGEST_ALONE = 128
SHORTEST_PACKED = 64
# The share of the tokens that stands in packed sequences.
PACKED_SHARE = 0.5
# A corpus smaller than the budget is seen at most this many times.
MOST_PASSES = 8


def draw_sequences(
    corpus: Corpus,
    numbers: npt.NDArray[np.int64],
    reader: CorpusReader,
    *,
    tokens: int,
    seed: int,
) -> list[Ids]:
    """About `tokens` ids in shuffled sequences `[CLS] … [SEP]` of at most the root's maximum.

    A share of the tokens comes from neighbouring texts packed into one sequence of random length up to that,
    because otherwise a corpus of short texts would teach nothing about far positions.
    Raises HplmError("corpus_too_small") when the texts give no sequence at all.
    """
    rng = np.random.default_rng(seed)
    longest = reader.config.max_tokens
    drawn: list[Ids] = []
    total = 0
    for _ in range(MOST_PASSES):
        for start in rng.permutation(len(numbers)):
            if total >= tokens:
                return drawn
            if rng.random() < PACKED_SHARE / _mean_ratio(longest):
                goal = round(float(np.exp(rng.uniform(np.log(SHORTEST_PACKED), np.log(max(longest, 65))))))
                new = _packed(corpus, numbers[start:], reader, min(goal, longest))
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


def _alone(corpus: Corpus, numbers: npt.NDArray[np.int64], reader: CorpusReader, longest: int) -> list[Ids]:
    (text,) = corpus.texts(numbers)
    # A very long text gives its first pieces only: no text may outweigh the others.
    return list(reader.framed(reader.plain(text)[: 8 * longest], longest))


def _packed(corpus: Corpus, numbers: npt.NDArray[np.int64], reader: CorpusReader, length: int) -> list[Ids]:
    parts: list[Ids] = []
    total = 0
    for text in corpus.texts(numbers[:length]):
        parts.append(reader.plain(text))
        total += len(parts[-1])
        if total >= length - 2:
            break
    return list(reader.framed(np.concatenate(parts)[: length - 2], length))


@dataclass(frozen=True)
class Batch:
    """Sequences padded to one length, and their fragments without repetition.

    ids [B, T] int64 and mask [B, T] bool on the CPU; lengths [B] int64; unique [U, 3] int64 (numpy); where
    [B, T] int64, the row of `unique` that each token's fragment is (0 at padding).
    """

    ids: Tensor
    mask: Tensor
    lengths: Tensor
    unique: npt.NDArray[np.int64]
    where: Tensor


def make_batch(sequences: list[Ids], config: RootConfig) -> Batch:
    """Pad the sequences and find their unique fragments."""
    lengths = np.asarray([len(ids) for ids in sequences], dtype=np.int64)
    ids = np.full((len(sequences), int(lengths.max())), config.pad_id, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
    mask = np.arange(ids.shape[1])[None, :] < lengths[:, None]
    keys = np.concatenate([fragments.pack(fragments.of_sequence(s, config.missing_id)) for s in sequences])
    unique, inverse = np.unique(keys, return_inverse=True)
    where = np.zeros(ids.shape, dtype=np.int64)
    where[mask] = inverse
    return Batch(
        torch.from_numpy(ids),
        torch.from_numpy(mask),
        torch.from_numpy(lengths),
        fragments.unpack(unique),
        torch.from_numpy(where),
    )


def batches_of(sequences: list[Ids], *, batch_tokens: int, seed: int | None) -> list[list[Ids]]:
    """Group sequences of like length so that each padded batch holds at most `batch_tokens` ids.

    With a seed the batches are shuffled and sequences of like length are mixed; without, they go by length.
    """
    return [[sequences[i] for i in group] for group in index_batches(sequences, batch_tokens, seed)]


def index_batches(sequences: list[Ids], batch_tokens: int, seed: int | None) -> list[list[int]]:
    """As `batches_of`, giving the places of the sequences in the list."""
    lengths = np.asarray([len(ids) for ids in sequences])
    rng = np.random.default_rng(seed) if seed is not None else None
    # A little noise on the length mixes neighbours from pass to pass without costing much padding.
    noise = rng.uniform(0.9, 1.1, len(lengths)) if rng is not None else np.ones(len(lengths))
    groups = list(_filled(np.argsort(lengths * noise, kind="stable"), lengths, batch_tokens))
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
