"""The text of the benchmark as token ids, and a decoder's states of it, computed once and kept on disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import tokenizers
import torch
from torch import Tensor

from benchmarks.accuracy.hgpt.fragments import Fragments, Ids, Table, complete
from benchmarks.result_cache import cache_folder
from inference.decoder.checkpoint import DecoderCheckpoint
from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.hplm.sequences import PackedSequences

LENGTH: Final = 256
"""Tokens of a sequence."""
HELD_OUT: Final = 0.02
"""Share of the corpus, its last texts, of which the held-out sequences are."""
ALPHA: Final = 50.0
LOOKUPS: Final = ("every", "table", "unigrams")
"""With every fragment there; with a table of ALPHA % of the training part; with uni-grams alone."""
BATCH: Final = 8
"""Sequences of a forward pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Sequences [S, LENGTH] of a corpus, each behind the token that begins a text.

    counted: of the training part, whose fragments a table counts. train: the first ones of them. held_out: of
    texts that the table has not seen.
    """

    counted: Ids
    train: Ids
    held_out: Ids

    @classmethod
    def of(cls, corpus: Path, checkpoint: DecoderCheckpoint, train: int, held_out: int) -> "Text":
        """The first sequences of each part of a corpus with one text a line."""
        first = checkpoint.stop_ids[0] if checkpoint.bos_id is None else checkpoint.bos_id
        tokenizer = tokenizers.Tokenizer.from_str(checkpoint.tokenizer)
        lines = corpus.read_text(encoding="utf-8").splitlines(keepends=True)
        split = int(len(lines) * (1 - HELD_OUT))

        def sequences(texts: Sequence[str]) -> Ids:
            found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            ids = np.concatenate([np.array(one.ids, dtype=np.int64) for one in found])
            rows = ids[: len(ids) // (LENGTH - 1) * (LENGTH - 1)].reshape(-1, LENGTH - 1)
            return np.pad(rows, ((0, 0), (1, 0)), constant_values=first)

        counted = sequences(lines[:split])
        return cls(counted, counted[:train], sequences(lines[split:])[:held_out])

    def depths(self, vocab: int) -> tuple[dict[str, Ids], dict[str, Ids]]:
        """Tokens of the fragment that is looked up for each token of `train` and `held_out`, by LOOKUPS."""
        table = Table(self.counted, vocab, ALPHA)
        parts = []
        for sequences, counted in ((self.train, True), (self.held_out, False)):
            whole = complete(sequences)
            found = table.depths(sequences, leave_one_out=counted)
            parts.append(dict(zip(LOOKUPS, (whole, found, np.minimum(whole, 1)), strict=True)))
        return parts[0], parts[1]


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """A decoder's states of a text, float16.

    fragments: of train and held-out. of_fragments: by cut, [nodes, hidden]. train, held_out: by number of
    layers, the cuts and all, [S, LENGTH, hidden] in their full context.
    """

    fragments: Fragments
    of_fragments: dict[int, Tensor]
    train: dict[int, Tensor]
    held_out: dict[int, Tensor]

    @classmethod
    def load(cls, decoder: Decoder, sha256: str, text: Text, cuts: Sequence[int]) -> "States":
        """Those of the cache folder, computed where they are not there."""
        shape = decoder.architecture
        fragments = Fragments(np.concatenate([text.train, text.held_out]), shape.vocab)
        sizes = {"train": len(text.train), "held_out": len(text.held_out)}
        folder = cache_folder("hgpt", {"sha256": sha256, "cuts": list(cuts), **sizes})
        numbers = [*cuts, shape.layers]
        return cls(
            fragments,
            _kept(folder / "fragments.pt", lambda: fragments.states(decoder, cuts)),
            _kept(folder / "train.pt", lambda: full_context(decoder, text.train, numbers)),
            _kept(folder / "held_out.pt", lambda: full_context(decoder, text.held_out, numbers)),
        )


@torch.no_grad()
def full_context(decoder: Decoder, sequences: Ids, numbers: Sequence[int]) -> dict[int, Tensor]:
    """States [S, LENGTH, hidden] float16 of sequences above the lowest layers, for each number of them."""
    found: dict[int, list[Tensor]] = {number: [] for number in numbers}
    for begin in range(0, len(sequences), BATCH):
        chunk = sequences[begin : begin + BATCH]
        layout = packed(len(chunk), chunk.shape[1])
        positions = torch.from_numpy(layout.positions)
        states, done = decoder.embed(torch.from_numpy(chunk.ravel()), positions), 0
        for number in sorted(found):
            layers, done = range(done, number), number
            states = decoder.run_layers(states, positions, DenseAttention(layout), layers=layers)
            found[number].append(states.view(*chunk.shape, -1).half())
    return {number: torch.cat(parts) for number, parts in found.items()}


def packed(count: int, length: int = LENGTH) -> PackedSequences:
    """The layout of sequences of one length."""
    return PackedSequences((length,) * count)


def _kept(file: Path, compute: Callable[[], dict[int, Tensor]]) -> dict[int, Tensor]:
    """What `compute` returns, as float16, from a file that is written once it is known."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        torch.save({number: states.half() for number, states in compute().items()}, partial)
        partial.replace(file)
    loaded: dict[int, Tensor] = torch.load(file, mmap=True)
    return loaded
