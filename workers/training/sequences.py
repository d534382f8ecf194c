"""Training sequences drawn from a corpus, and batches of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm import fragments
from inference.hplm.families import FAMILIES
from inference.hplm.plot import HIT_EXACT, HIT_SHORTER, HIT_UNIGRAM
from inference.hplm.root_config import RootConfig
from inference.hplm.upload import Upload
from workers.training.corpus import Corpus, CorpusReader, Ids, no_check
from workers.training.precision import CPU, bucket_length

# Single texts are truncated to this many ids; only packed sequences are longer.
MAX_SINGLE_LENGTH = 128
MIN_PACKED_LENGTH = 64
# The share of the tokens that is in packed sequences.
PACKED_SHARE = 0.5
# The share of packed sequences that is formatted as a pair of texts.
PAIR_SHARE = 0.3
# A corpus smaller than the budget is repeated at most this many times.
MAX_PASSES = 8


@dataclass(frozen=True, eq=False)
class TokenSequence:
    """Token ids [T] with special tokens, and token types [T], int64 both."""

    ids: Ids
    types: Ids

    def __len__(self) -> int:
        return len(self.ids)


def single_text(ids: Ids) -> TokenSequence:
    """The sequence of one text, from ids that include the special tokens."""
    return TokenSequence(ids, np.zeros_like(ids))


def text_pair(first: Ids, second: Ids, config: RootConfig) -> TokenSequence:
    """The sequence of two texts, from ids without special tokens, in the format of the root's family."""
    separators = FAMILIES[config.family].specials.separators
    between = np.full(separators, config.sep_id, dtype=np.int64)
    ids = np.concatenate(([config.cls_id], first, between, second, [config.sep_id])).astype(np.int64)
    types = np.zeros(len(ids), dtype=np.int64)
    if config.type_count > 1:
        types[1 + len(first) + separators :] = 1
    return TokenSequence(ids, types)


def draw_sequences(
    corpus: Corpus,
    numbers: npt.NDArray[np.int64],
    reader: CorpusReader,
    *,
    tokens: int,
    rng: np.random.Generator,
    check: Callable[[], None] = no_check,
) -> list[TokenSequence]:
    """Draw shuffled sequences of at most the root's maximum length, of about `tokens` ids together.

    A share of the tokens comes from neighbouring texts packed into one sequence of random length; otherwise a
    corpus of short texts would not train far positions. Some of these are formatted as a pair. check: called
    before each draw. Raises HplmError("corpus_too_small") when the texts hold no token.
    """
    longest = reader.config.max_tokens
    drawn: list[TokenSequence] = []
    total = 0
    for _ in range(MAX_PASSES):
        for start in rng.permutation(len(numbers)):
            if total >= tokens:
                return drawn
            check()
            if rng.random() < PACKED_SHARE / _length_ratio(longest):
                target_length = round(
                    float(np.exp(rng.uniform(np.log(MIN_PACKED_LENGTH), np.log(max(longest, 65)))))
                )
                ids = _packed_ids(corpus, numbers[start:], reader, min(target_length, longest) - 2)
                new = _packed(ids, reader, rng)
            else:
                new = _single(corpus, numbers[start : start + 1], reader, min(MAX_SINGLE_LENGTH, longest))
            drawn.extend(new)
            total += sum(map(len, new))
    if not drawn:
        raise HplmError("corpus_too_small", "The texts of the corpus hold no token that the model knows.")
    return drawn


def _length_ratio(longest: int) -> float:
    """The rough length of a packed sequence over that of a single text."""
    return max(1.0, min(longest, 256) / 32)


def _single(
    corpus: Corpus, numbers: npt.NDArray[np.int64], reader: CorpusReader, longest: int
) -> list[TokenSequence]:
    (text,) = corpus.texts(numbers)
    # Only the first pieces of a very long text are used, so that no text outweighs the others.
    return [single_text(ids) for ids in reader.split(reader.plain(text)[: 8 * longest], longest)]


def _packed_ids(corpus: Corpus, numbers: npt.NDArray[np.int64], reader: CorpusReader, length: int) -> Ids:
    parts: list[Ids] = []
    total = 0
    for text in corpus.texts(numbers[:length]):
        parts.append(reader.plain(text))
        total += len(parts[-1])
        if total >= length:
            break
    return np.concatenate(parts)[:length]


def _packed(ids: Ids, reader: CorpusReader, rng: np.random.Generator) -> list[TokenSequence]:
    config = reader.config
    separators = FAMILIES[config.family].specials.separators
    available = len(ids) - separators
    if available < 2 or rng.random() >= PAIR_SHARE:
        return [single_text(one) for one in reader.split(ids, len(ids) + 2)] if len(ids) else []
    cut = int(rng.integers(1, available))
    return [text_pair(ids[:cut], ids[cut:available], config)]


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """The tensors of a `Batch` on its device. levels: [B, T] int64, the HIT_* of each token's lookup. tokens:
    [N] int64, where its tokens are in B times T places."""

    ids: Tensor
    types: Tensor
    mask: Tensor
    lengths: Tensor
    lookup_index: Tensor
    levels: Tensor
    tokens: Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences padded to one length, and their fragments without repetition.

    ids, types [B, T] int64 and mask [B, T] bool on the CPU. lengths: [B] int64. fragments: [N, n] int64
    (numpy), the complete fragments of all tokens, sequence by sequence. unique: [U, n] int64 (numpy), the
    fragments to look up. lookup_index: [B, T] int64, the row of `unique` for each token (0 at padding).
    missing_id: the id of a missing neighbour. device: where it is computed.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    lengths: Tensor
    fragments: Ids
    unique: Ids
    lookup_index: Tensor
    missing_id: int
    device: torch.device

    @cached_property
    def on_device(self) -> DeviceBatch:
        """The tensors on the device, copied together at the first use."""
        upload = Upload(self.device)
        tokens = torch.from_numpy(np.flatnonzero(self.mask.numpy()))
        values = (self.ids, self.types, self.mask, self.lengths, self.lookup_index, self.levels, tokens)
        added = [upload.add(value.numpy()) for value in values]
        return DeviceBatch(*(one.tensor for one in added))

    @property
    def levels(self) -> Tensor:
        """The HIT_* [B, T] int64 that a table would give each token, if it had exactly the lookups; 0 at
        padding."""
        lookups = self.unique[self.lookup_index[self.mask].numpy()]
        single = (
            fragments.fragment_levels(lookups, self.missing_id) == fragments.level_count(lookups.shape[1]) - 1
        )
        complete = (lookups == self.fragments).all(axis=1)
        levels = torch.zeros_like(self.ids)
        levels[self.mask] = torch.from_numpy(
            np.where(complete, HIT_EXACT, np.where(single, HIT_UNIGRAM, HIT_SHORTER))
        )
        return levels

    def tokens_of(self, values: Tensor) -> Tensor:
        """The rows [N, d] of the tokens, sequence by sequence, of padded values [B, T, d] on the device."""
        return values.flatten(0, 1).index_select(0, self.on_device.tokens)

    def with_lookups(self, lookups: Ids) -> "Batch":
        """The same batch, in which `lookups` [N, n] are looked up in place of the complete fragments."""
        _, unique, inverse = fragments.unique(lookups)
        lookup_index = torch.zeros_like(self.ids)
        lookup_index[self.mask] = torch.from_numpy(inverse)
        return replace(self, unique=unique, lookup_index=lookup_index)


def make_batch(sequences: Sequence[TokenSequence], config: RootConfig, device: torch.device = CPU) -> Batch:
    """Pad the sequences, see `bucket_length`, and extract their unique fragments."""
    lengths = np.asarray([len(one) for one in sequences], dtype=np.int64)
    mask = np.arange(bucket_length(int(lengths.max()), device))[None, :] < lengths[:, None]
    ids = np.full(mask.shape, config.pad_id, dtype=np.int64)
    types = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate([one.ids for one in sequences])
    types[mask] = np.concatenate([one.types for one in sequences])
    complete = np.concatenate([fragments.extract(one.ids, config.missing_id, config.n) for one in sequences])
    _, unique, inverse = fragments.unique(complete)
    lookup_index = np.zeros(mask.shape, dtype=np.int64)
    lookup_index[mask] = inverse
    return Batch(
        ids=torch.from_numpy(ids),
        types=torch.from_numpy(types),
        mask=torch.from_numpy(mask),
        lengths=torch.from_numpy(lengths),
        fragments=complete,
        unique=unique,
        lookup_index=torch.from_numpy(lookup_index),
        missing_id=config.missing_id,
        device=device,
    )


@dataclass(frozen=True, eq=False)
class LookupSequence:
    """A sequence, and the fragments [T, n] to look up in place of its complete ones."""

    sequence: TokenSequence
    lookups: Ids

    def __len__(self) -> int:
        return len(self.sequence)


def make_lookup_batch(
    sequences: Sequence[LookupSequence], config: RootConfig, device: torch.device = CPU
) -> Batch:
    """Pad the sequences and find their unique lookups."""
    batch = make_batch([one.sequence for one in sequences], config, device)
    return batch.with_lookups(np.concatenate([one.lookups for one in sequences]))


def make_batches(
    sequences: list[TokenSequence], *, batch_tokens: int, rng: np.random.Generator | None
) -> list[list[TokenSequence]]:
    """Group sequences of similar length so that each padded batch holds at most `batch_tokens` ids.

    With `rng` the batches are shuffled and sequences of similar length are mixed; without, sorted by length.
    """
    batches = index_batches([len(one) for one in sequences], batch_tokens, rng)
    return [[sequences[index] for index in batch] for batch in batches]


def index_batches(
    lengths: Sequence[int], batch_tokens: int, rng: np.random.Generator | None
) -> list[list[int]]:
    """As `make_batches`, from lengths alone: the indices of each batch."""
    sizes = np.asarray(lengths)
    # Noise on the length mixes sequences from pass to pass at the cost of little padding.
    noise = rng.uniform(0.9, 1.1, len(sizes)) if rng is not None else np.ones(len(sizes))
    batches = list(_fill_batches(np.argsort(sizes * noise, kind="stable"), sizes, batch_tokens))
    if rng is not None:
        rng.shuffle(batches)
    return batches


def _fill_batches(
    order: npt.NDArray[np.intp], lengths: npt.NDArray[np.int64], batch_tokens: int
) -> Iterator[list[int]]:
    batch: list[int] = []
    longest = 0
    for index in order:
        longest = max(longest, int(lengths[index]))
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, longest = [], int(lengths[index])
        batch.append(int(index))
    if batch:
        yield batch
