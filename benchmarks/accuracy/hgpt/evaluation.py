"""What a decoder loses and saves if its lower layers are looked up: perplexity and processor time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.accuracy.hgpt.fragments import Ids
from benchmarks.accuracy.hgpt.mixer import CausalMixer
from benchmarks.accuracy.hgpt.states import States, packed
from benchmarks.accuracy.hgpt.training import LookedUp
from inference.decoder.decoder import Attention, Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.hplm.context_mixer import LEVELS
from inference.hplm.sequences import PackedSequences

SEQUENCES: Final = 2
REPEATS: Final = 7
ROWS: Final = 32
"""Sequences of a decoding step that is timed."""
CONTEXT: Final = 128
"""Tokens before its new ones."""
PROMPT: Final = 256
"""Tokens of a prefill that is timed."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Held-out text as one way of reading it sees it.

    losses: mean cross-entropy [S] of the next token, of each sequence. at_cut, last: shares of the states'
    variance that are unexplained at the cut and above the last layer, means over the dimensions.
    """

    losses: Tensor
    at_cut: float
    last: float

    def against(self, full: Tensor) -> dict[str, float]:
        """The perplexity, how many times that of the full model it is, and the standard error of that."""
        ratio = (self.losses - full).mean().exp()
        error = ratio * (self.losses - full).std() / len(full) ** 0.5
        found = {"perplexity": self.losses.mean().exp(), "ratio": ratio, "ratio_error": error}
        return {name: float(value) for name, value in found.items()} | {
            "at_cut": self.at_cut,
            "last": self.last,
        }


@torch.no_grad()
def full_losses(decoder: Decoder, states: States, sequences: Ids) -> Tensor:
    """Mean cross-entropy [S] of the next token by the full model, from its kept states."""
    last = states.held_out[decoder.architecture.layers]
    return torch.cat([_losses(decoder, last[at].float(), sequences[[at]]) for at in range(len(sequences))])


@torch.no_grad()
def read(
    decoder: Decoder,
    states: States,
    sequences: Ids,
    looked_up: LookedUp,
    mixer: CausalMixer | None,
    cut: int,
) -> Reading:
    """Held-out sequences through the upper layers, above looked-up states and the mixer."""
    layers, length = decoder.architecture.layers, sequences.shape[1]
    losses, errors = [], []
    scales = [states.held_out[number][:, 1:].float().flatten(0, 1).var(0) for number in (cut, layers)]
    for begin in range(0, len(sequences), SEQUENCES):
        chosen = np.arange(begin, min(begin + SEQUENCES, len(sequences)))
        layout = packed(len(chosen), length)
        positions = torch.from_numpy(layout.positions)
        at_cut = looked_up.mixed(mixer, chosen)
        last = decoder.run_layers(at_cut, positions, DenseAttention(layout), layers=range(cut, layers))
        losses.append(_losses(decoder, last, sequences[chosen]))
        pairs = ((cut, at_cut, scales[0]), (layers, last, scales[1]))
        errors.append([_unexplained(found, states.held_out[at][chosen], scale) for at, found, scale in pairs])
    of_cut, of_last = np.mean(errors, axis=0).tolist()
    return Reading(torch.cat(losses), of_cut, of_last)


def _unexplained(found: Tensor, wanted: Tensor, variance: Tensor) -> float:
    difference = found.view(wanted.shape)[:, 1:] - wanted[:, 1:].float()
    return float((difference.square().mean((0, 1)) / variance).mean())


def _losses(decoder: Decoder, last: Tensor, sequences: Ids) -> Tensor:
    """[S] of states [S × T, hidden] above the last layer."""
    logits = decoder.logits(last).view(*sequences.shape, -1)[:, :-1]
    return functional.cross_entropy(
        logits.transpose(1, 2), torch.from_numpy(sequences[:, 1:]), reduction="none"
    ).mean(1)


class StepAttention:
    """Attention of one new token of each row to `context` random keys and values and to itself."""

    def __init__(self, layers: int, kv_heads: int, head_size: int, rows: int, context: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self._cache = torch.randn(layers, 2, rows, kv_heads, context + 1, head_size, generator=draw)

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, window: int | None = None
    ) -> Tensor:
        """Mixed values [rows, heads, d] of query [rows, heads, d], key and value [rows, kv_heads, d]."""
        keys, values = self._cache[layer]
        keys[:, :, -1], values[:, :, -1] = key, value
        mixed = functional.scaled_dot_product_attention(query[:, :, None], keys, values, enable_gqa=True)
        return mixed[:, :, 0]


@torch.no_grad()
def processor_times(decoder: Decoder, mixer: CausalMixer, rows: Tensor, cut: int) -> dict[str, float]:
    """Milliseconds of processor time, without LoRA, of a decoding step of ROWS rows behind CONTEXT tokens and
    of the prefill of one prompt of PROMPT tokens: in full, and with rows [nodes, hidden] and the mixer in
    place of the lower layers. Medians; both ways take turns."""
    shape, last = decoder.architecture, torch.tensor([PROMPT - 1])
    of_decoder = StepAttention(shape.layers, shape.kv_heads, shape.head_size, ROWS, CONTEXT)
    of_mixer = StepAttention(len(mixer.blocks), *mixer.kv_shape, ROWS, CONTEXT)
    dense = DenseAttention(PackedSequences((PROMPT,)))

    def both(positions: Tensor, attention: Attention, mixing: Attention, scored: Tensor) -> list[float]:
        ids, levels = positions % shape.vocab, positions % LEVELS
        nodes = (7919 * torch.arange(len(positions))) % len(rows)

        def looked_up() -> Tensor:
            mixed = mixer(rows[nodes], levels, positions, mixing)
            above = range(cut, shape.layers)
            return decoder.logits(decoder.run_layers(mixed, positions, attention, layers=above)[scored])

        return _take_turns(lambda: decoder.forward(ids, positions, attention, rows=scored), looked_up)

    decode = both(torch.full((ROWS,), CONTEXT), of_decoder, of_mixer, torch.arange(ROWS))
    prefill = both(torch.arange(PROMPT), dense, dense, last)
    found: dict[str, float] = {}
    for name, (in_full, looked_up) in (("decode", decode), ("prefill", prefill)):
        found |= {f"{name}_full_ms": in_full, f"{name}_ms": looked_up}
        found[f"{name}_saved"] = 1 - looked_up / in_full
    return found


def _take_turns(*calls: Callable[[], object]) -> list[float]:
    """The median processor time of each call in milliseconds."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, times in zip(calls, taken, strict=True):
            started = time.process_time()
            call()
            times.append(1000 * (time.process_time() - started))
    return [median(times) for times in taken]
