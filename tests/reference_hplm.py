"""Reference implementation of an hPLM in plain PyTorch and float32, one text at a time, for tests.

It is written from the definitions and shares no code with the modules that it checks.
"""

import math
from bisect import bisect_left

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.architecture import make_activation
from inference.hplm.fragments import pack
from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.text.encodings import outputs_at
from inference.text.predictions import Prediction, predict

Tensors = dict[str, Tensor]


def predict_reference(
    root: Root, chain: PlotChain, hplm: Hplm, text: str, pair: str | None = None
) -> Prediction:
    """The prediction for one text (or pair of texts)."""
    encoding = root.tokenizer.encode(text, pair)
    outputs = reference_outputs(root, chain, hplm, encoding.ids, encoding.types)
    if (asked := outputs_at(hplm.task, encoding)) is not None:
        outputs = outputs[asked]
    return predict(hplm.task, hplm.labels, [outputs], [encoding], text, pair, threshold=hplm.threshold)


@torch.no_grad()
def reference_outputs(
    root: Root,
    chain: PlotChain,
    hplm: Hplm,
    ids: NDArray[np.int64],
    types: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """The logits [C] of the text, or [T, C] of its tokens, from ids and types [T] int64."""
    token_types = np.zeros_like(ids) if types is None else types
    return outputs_from_states(root, hplm, lookup_states(chain, ids, token_types))


@torch.no_grad()
def outputs_from_states(root: Root, hplm: Hplm, states: Tensor) -> NDArray[np.float32]:
    """The logits [C] or [T, C] from token states [T, d] float32 at the cut."""
    hidden = states
    for index, layer in enumerate(root.upper.layers):
        hidden = _layer(root, layer, hidden, hplm, index)
    if hplm.head.pooling == "cut_last":
        parts = [part for found in (states, hidden) for part in (found.mean(0), found.max(0).values)]
        hidden = torch.cat(parts)
    elif hplm.head.pooling == "token_cut_last":
        hidden = torch.cat([states, hidden], 1)
    elif hplm.head.pooling == "cls":
        hidden = hidden[0]
    elif hplm.head.pooling == "mean":
        hidden = hidden.mean(0)
    elif hplm.head.pooling == "cls_mean":
        hidden = torch.cat([hidden[0], hidden.mean(0)])
    if inner := hplm.head.inner:
        hidden = functional.linear(hidden, _plain(inner.weight), _plain(inner.bias))
        hidden = make_activation(inner.activation)(hidden)
        if inner.norm is not None:
            scale, shift = map(_plain, inner.norm)
            hidden = functional.layer_norm(hidden, hidden.shape[-1:], scale, shift, 1e-5)
    outputs = functional.linear(hidden, _plain(hplm.head.weight), _plain(hplm.head.bias))
    result: NDArray[np.float32] = outputs.numpy()
    return result


@torch.no_grad()
def lookup_states(chain: PlotChain, ids: NDArray[np.int64], types: NDArray[np.int64]) -> Tensor:
    """Token states [T, d] float32 at the cut, from ids and types [T] int64, by a chain with a mixer."""
    n, missing = chain.n, chain.missing_id
    before = n // 2
    padded = [missing] * before + ids.tolist() + [missing] * (n - 1 - before)
    rows, levels = zip(*(_row(chain, tuple(padded[at : at + n])) for at in range(len(ids))), strict=True)
    parts = chain.composition
    sums = []
    for at in range(len(ids)):
        state = parts.position_bias[at] + parts.type_bias[int(types[at])]
        for slot in range(n):
            source = at - (slot - before)
            if 0 <= source < len(rows):
                state = state + rows[source][slot]
        sums.append(state)
    assert parts.mixer is not None
    return _mixed(parts.mixer.state_dict(), torch.stack(sums), list(levels))


def _mixed(weights: Tensors, sums: Tensor, levels: list[int]) -> Tensor:
    """States [T, d] that the context mixer makes of the sums of one text."""
    hidden = sums + weights["levels.weight"][levels]
    normed, kernel = _normalised(weights, {}, "mix", hidden, 1e-6), weights["convolution"]
    value = _linear(weights, {}, "value", normed)
    around = functional.linear(value.mean(0), weights["mean.weight"]).expand(value.shape).clone()
    for at in range(len(value)):
        for offset, weight in enumerate(kernel):
            other = at + offset - len(kernel) // 2
            if 0 <= other < len(value):
                around[at] += weight * value[other]
    gate = _linear(weights, {}, "gate", normed).sigmoid()
    hidden = hidden + _linear(weights, {}, "output", around * gate)
    inner = _linear(weights, {}, "expand", _normalised(weights, {}, "feed", hidden, 1e-6))
    hidden = hidden + _linear(weights, {}, "contract", functional.gelu(inner))
    return _normalised(weights, {}, "output", hidden, 1e-6)


def _row(chain: PlotChain, fragment: tuple[int, ...]) -> tuple[Tensor, int]:
    """The vectors [n, d] of one fragment, or of the shorter part that is found; and 0 for the fragment,
    1 for a part of it, 2 for its token alone."""
    for shown in _fallback_fragments(fragment, chain.missing_id):
        key = int(pack(np.array(shown, dtype=np.int64)))
        for table in chain.tables:
            vectors = _find(table, key)
            if vectors is not None:
                neighbours = sum(token != chain.missing_id for token in shown) - 1
                return vectors, 0 if shown == fragment else 1 if neighbours else 2
    raise LookupError(f"no table holds the uni-gram of token {fragment[len(fragment) // 2]}")


def _fallback_fragments(fragment: tuple[int, ...], missing: int) -> list[tuple[int, ...]]:
    """The fragment itself, then with ever fewer neighbours: more tokens first, then as many on both sides,
    then more of what came before."""
    n, centre = len(fragment), len(fragment) // 2
    extents = [(left, right) for left in range(centre + 1) for right in range(n - centre)]
    extents.sort(key=lambda ends: (-sum(ends), abs(ends[0] - ends[1]), -ends[0]))
    return [
        tuple(
            token if centre - left <= at <= centre + right else missing for at, token in enumerate(fragment)
        )
        for left, right in extents
    ]


def _find(table: PlotTable, key: int) -> Tensor | None:
    at = bisect_left(table.keys, key)
    if at == len(table.keys) or int(table.keys[at]) != key:
        return None
    row = table.rows[at]
    values = np.array(row["values"], dtype=np.float32)
    if "scales" in (row.dtype.names or ()):
        values = (values * row["scales"][:, None]).astype(np.float16).astype(np.float32)
    return torch.from_numpy(values)


def _layer(root: Root, layer: nn.Module, hidden: Tensor, hplm: Hplm, index: int) -> Tensor:
    """One upper layer of states [T, d], changed by the PET."""
    weights = {name: _plain(value) for name, value in layer.named_parameters()}
    pet = {name: _plain(value[index]) for name, value in hplm.pet.weights.items()}
    shape = root.config.architecture
    attended = _linear(weights, pet, "output", _attention(weights, pet, hidden, shape.heads))
    states = _normalised(weights, pet, "attention", attended + hidden, shape.eps)
    states = _adapter(pet, "adapter", states)
    inner = make_activation(shape.activation)(_linear(weights, pet, "expand", states))
    outer = _linear(weights, pet, "contract", inner)
    return _adapter(pet, "output_adapter", _normalised(weights, pet, "output", outer + states, shape.eps))


def _bias_row(distance: int, span: int) -> int:
    """MPNet's row for a query so many tokens behind a key: distances below half the span have their own, all
    up to 128 share the other half on a logarithmic scale."""
    near, away = span // 2, abs(distance)
    if away > near:
        away = min(near + int(math.log(away / near) / math.log(128 / near) * (span - near)), span - 1)
    return span + (away if distance > 0 else -away)


def _attention(weights: Tensors, pet: Tensors, hidden: Tensor, heads: int) -> Tensor:
    def split(place: str) -> Tensor:
        return _linear(weights, pet, place, hidden).view(len(hidden), heads, -1).transpose(0, 1)

    query, key, value = split("query"), split("key"), split("value")
    scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
    if (table := weights.get("positions.biases")) is not None:
        rows = torch.tensor([[_bias_row(i - j, len(table) // 2) for j in range(len(hidden))]
                             for i in range(len(hidden))])  # fmt: skip
        scores = scores + table[rows].permute(2, 0, 1)
    context: Tensor = (scores.softmax(dim=-1) @ value).transpose(0, 1).flatten(1)
    return context


def _linear(weights: Tensors, pet: Tensors, place: str, states: Tensor) -> Tensor:
    """The map with its weight and bias as the PET changes them."""
    weight, bias = weights[f"{place}.weight"], weights[f"{place}.bias"]
    if f"lora.{place}.a" in pet:
        weight = weight + pet[f"lora.{place}.b"] @ pet[f"lora.{place}.a"]
    if f"bias.{place}" in pet:
        bias = bias + pet[f"bias.{place}"]
    return functional.linear(states, weight, bias)


def _adapter(pet: Tensors, part: str, states: Tensor) -> Tensor:
    """Paper, equation 1."""
    if f"{part}.down_w" not in pet:
        return states
    down = functional.linear(states, pet[f"{part}.down_w"], pet[f"{part}.down_b"])
    return functional.linear(down.relu(), pet[f"{part}.up_w"], pet[f"{part}.up_b"]) + states


def _normalised(weights: Tensors, pet: Tensors, name: str, states: Tensor, eps: float) -> Tensor:
    weight, bias = weights[f"{name}_norm.weight"], weights[f"{name}_norm.bias"]
    if f"norm.{name}.weight" in pet:
        weight, bias = weight + pet[f"norm.{name}.weight"], bias + pet[f"norm.{name}.bias"]
    return functional.layer_norm(states, states.shape[-1:], weight, bias, eps)


def _plain(value: Tensor) -> Tensor:
    return value.detach().to("cpu", torch.float32)
