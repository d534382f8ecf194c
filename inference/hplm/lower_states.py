"""Computes hidden states at the cut: from table rows, or by the lower layers with full context.

The serving engine and the evaluation of a model both use it, so that they see the same states.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from inference.cascade.dispatcher import Coverage, Level
from inference.errors import HplmError
from inference.hplm.attention import add_encoder_layout
from inference.hplm.compose import PackedLayout, compose_packed, concatenate, source_vectors
from inference.hplm.context_mixer import ContextMixer
from inference.hplm.encoder import FullLower
from inference.hplm.plot_lookup import (
    COMPUTED,
    NOTHING_FOUND,
    Ids,
    LookupPart,
    LookupResult,
    LowerLayers,
    TextBatch,
    TokenLevels,
    lookup,
)
from inference.hplm.row_cache import GatheredRows
from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload, Uploaded


@dataclass(frozen=True, slots=True, eq=False)
class LowerLayersOutput:
    """Hidden states of B packed texts at the cut, and how they were made.

    states [N, d] are on the device, sequences say where each text lies. coverage and
    token_levels ([T] uint8 of a HIT_* or COMPUTED; None if not requested) are per text; of a text of the
    level FULL nothing is covered.
    """

    states: Tensor
    sequences: PackedSequences
    coverage: list[Coverage]
    token_levels: list[TokenLevels | None]


def compute_lower_states(
    ids: Sequence[Ids],
    lowers: Sequence[LowerLayers],
    levels: Sequence[Level],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LowerLayersOutput:
    """The hidden states at the cut, float32, of a batch of texts.

    ids, types: token ids and token types (default: zeros) of each text, [T_b] int64. lowers, levels: the
    lower layers and the level of each text. explain: whether to return its token_levels.

    Raises what `PlotChain.search` raises.
    """
    return finish_lower_states(lookup(ids, lowers, levels, types, explain))


@torch.no_grad()
def finish_lower_states(
    result: LookupResult, dtype: torch.dtype = torch.float32, upload: Upload | None = None
) -> LowerLayersOutput:
    """The hidden states in ``dtype`` from the result of a lookup.

    Moves the table rows to the device and composes them to states, and computes the texts of the level FULL.
    All indices reach the device with ``upload`` (default: with one of their own).
    """
    texts, upload = result.texts, upload or Upload(result.device)
    sequences = PackedSequences.of(texts.ids)
    pieces = [piece for part in result.parts for piece in _pieces(texts, sequences, part, upload)]
    mixings = _mixings(result, sequences, upload)
    rows = None if result.rows is None else result.rows.to(result.device, non_blocking=True)
    buffer = _StateBuffer(sequences, dtype)
    for piece in pieces:
        buffer.write(piece.positions, piece.compute(rows))
    for mixing in mixings:
        buffer.mix(mixing)
    assert buffer.states is not None
    coverage = {at: found for part in result.parts for at, found in part.coverage.items()}
    hits = {at: levels for part in result.parts for at, levels in part.token_levels.items()}
    every = range(len(texts.ids))
    return LowerLayersOutput(
        buffer.states,
        buffer.sequences,
        [coverage.get(at, NOTHING_FOUND) for at in every],
        [hits.get(at, _computed(texts.ids[at])) if texts.explain[at] else None for at in every],
    )


def _computed(ids: Ids) -> TokenLevels:
    """The levels of the tokens of a text that was not looked up."""
    return np.full(len(ids), COMPUTED, dtype=np.uint8)


class _StateBuffer:
    """The states [N, d] of a packed batch, written part by part."""

    def __init__(self, sequences: PackedSequences, dtype: torch.dtype) -> None:
        self.states: Tensor | None = None
        self.sequences, self._dtype = sequences, dtype

    def write(self, positions: Uploaded | None, states: Tensor) -> None:
        """Write the states [T, d] of the tokens at these positions [T]; None: of all."""
        if states.dtype == torch.float16 and states.device.type == "cpu":
            states = states.float()  # A CPU converts float16 to bfloat16 five times as fast by way of it.
        states = states.to(self._dtype)
        if positions is None:
            self.states = states
            return
        if self.states is None:
            self.states = states.new_empty(self.sequences.tokens, states.shape[1])
        self.states.index_copy_(0, positions.tensor, states)

    def mix(self, mixing: "_Mixing") -> None:
        """Put what the mixer makes of the states of its texts in their place."""
        assert self.states is not None
        own = self.states
        if mixing.positions is not None:
            own = own.index_select(0, mixing.positions.tensor)
        self.write(mixing.positions, mixing.mixer(own, mixing.sequences, mixing.levels.tensor))


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Texts of one part and level. positions: of their tokens in the batch, None: they are all of it.
    compute: their states, of the rows of all parts on the device."""

    positions: Uploaded | None
    compute: Callable[[Tensor | None], Tensor]


def _pieces(
    texts: TextBatch, sequences: PackedSequences, part: LookupPart, upload: Upload
) -> Iterator[_Piece]:
    """The pieces of a part, whose indices are added to the upload."""

    def positions(own: list[int]) -> Uploaded | None:
        return None if len(own) == len(sequences.lengths) else upload.add(sequences.tokens_of(own))

    if part.rows and part.layout:
        part.layout.add_to(upload)
        slots = [upload.add(cached.slots) for cached in part.rows.resident]
        compose = partial(_composed_states, part.lower, part.rows, part.layout, slots)
        yield _Piece(positions(part.looked_up), compose)
    if part.full:
        yield _Piece(positions(part.full), _full_states(texts, part, upload))


@dataclass(frozen=True, slots=True, eq=False)
class _Mixing:
    """Looked-up texts of a batch, of any domains, that one mixer gives context. positions: as of a piece.
    levels [N] int64: the HIT_* of their tokens."""

    mixer: ContextMixer
    sequences: PackedSequences
    positions: Uploaded | None
    levels: Uploaded


def _mixings(result: LookupResult, sequences: PackedSequences, upload: Upload) -> list[_Mixing]:
    """What each mixer of the batch is given, whose indices are added to the upload."""
    levels, texts_of = np.zeros(sequences.tokens, dtype=np.int64), dict[ContextMixer, list[int]]()
    for part in result.parts:
        mixer = part.lower.on_device.mixer if part.looked_up else None
        if mixer is not None:
            levels[sequences.tokens_of(part.looked_up)] = part.levels
            texts_of.setdefault(mixer, []).extend(part.looked_up)
    return [_mixing(mixer, texts, levels, sequences, upload) for mixer, texts in texts_of.items()]


def _mixing(
    mixer: ContextMixer, texts: list[int], levels: Ids, sequences: PackedSequences, upload: Upload
) -> _Mixing:
    if len(texts) == len(sequences.lengths):
        mixer.add_layout(sequences, upload)
        return _Mixing(mixer, sequences, None, upload.add(levels))
    own, positions = PackedSequences(tuple(sequences.lengths[at] for at in texts)), sequences.tokens_of(texts)
    mixer.add_layout(own, upload)
    return _Mixing(mixer, own, upload.add(positions), upload.add(levels[positions]))


def _composed_states(
    lower: LowerLayers,
    rows: GatheredRows,
    layout: PackedLayout,
    slots: Sequence[Uploaded],
    on_device: Tensor | None,
) -> Tensor:
    """The states of the texts that are composed from table rows. slots: of the resident rows."""
    assert on_device is not None
    composition = lower.on_device
    copied = on_device[rows.begin : rows.begin + len(rows.rows)]
    if not rows.resident:
        return compose_packed(source_vectors(copied, layout, composition), layout, composition)
    resident = [
        cached.rows.index_select(0, own.tensor) for cached, own in zip(rows.resident, slots, strict=True)
    ]
    table = concatenate([copied[: rows.copied], *resident])
    return compose_packed(source_vectors(table, layout, composition), layout, composition)


def _full_states(texts: TextBatch, part: LookupPart, upload: Upload) -> Callable[[Tensor | None], Tensor]:
    """What computes the states of the texts of the level FULL."""
    if part.lower.full is None:
        raise HplmError("inference_failed", "the lower layers that compute in full are not loaded")
    ids, types = ([rows[at] for at in part.full] for rows in (texts.ids, texts.types))
    compute = _full_context(part.lower.full, ids, types, upload)
    return lambda _: compute()


def full_states(full: FullLower, ids: Sequence[Ids], types: Sequence[Ids]) -> Tensor:
    """States [N, d] at the cut of texts, each [T] int64, computed with full context."""
    return _full_context(full, ids, types, Upload(full.word_embeddings.device))()


def _full_context(
    full: FullLower, ids: Sequence[Ids], types: Sequence[Ids], upload: Upload
) -> Callable[[], Tensor]:
    sequences = PackedSequences.of(ids)
    add_encoder_layout(sequences, upload, full.word_embeddings.dtype, full.architecture)
    sequences.add_positions(upload)
    packed = [upload.add(array) for array in (np.concatenate(ids), np.concatenate(types))]

    def compute() -> Tensor:
        own_ids, own_types = (added.tensor for added in packed)
        states: Tensor = full(own_ids, sequences, own_types)
        return states

    return compute
