"""The same hPLM run alone, row by row, in plain PyTorch and fp32: what the serving machine must agree with.

Written for being read, not for speed, and from the definitions rather than from the modules it is to check:
one fragment at a time, attention and adapters spelled out.
"""

from bisect import bisect_left

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

from inference.hplm.hplm import CLASSIFICATION, Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.predictions import Prediction, predict
from inference.hplm.root import Root


def predict_alone(root: Root, chain: PlotChain, hplm: Hplm, text: str) -> Prediction:
    """What `hplm` says about `text` when nothing else is in the batch."""
    encoding = root.tokenizer.encode(text)
    logits = logits_alone(root, chain, hplm, encoding.ids)
    return predict(hplm.task, hplm.labels, logits, encoding, text)


@torch.no_grad()
def logits_alone(root: Root, chain: PlotChain, hplm: Hplm, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Logits of one sequence of ids [T]: [C] for a classification, [T, C] for a tagging."""
    hidden = _looked_up(chain, [int(i) for i in ids])
    for index, layer in enumerate(root.upper.layers):
        hidden = _layer(root, layer, hidden, hplm, index)
    if hplm.task == CLASSIFICATION:
        hidden = hidden[0]
    logits = functional.linear(hidden, _plain(hplm.head.weight), _plain(hplm.head.bias))
    result: NDArray[np.float32] = logits.numpy()
    return result


def _looked_up(chain: PlotChain, ids: list[int]) -> Tensor:
    """Token states [T, d] at the cut."""
    missing = chain.missing_id
    padded = [missing, *ids, missing]
    rows = [_row(chain, padded[at], padded[at + 1], padded[at + 2]) for at in range(len(ids))]
    states = []
    for at, row in enumerate(rows):
        state = row[1] + chain.position_bias[at]
        if at > 0:
            state = state + rows[at - 1][2]
        if at + 1 < len(rows):
            state = state + rows[at + 1][0]
        states.append(state)
    return torch.stack(states)


def _row(chain: PlotChain, left: int, centre: int, right: int) -> Tensor:
    """The vectors [3, d] of one fragment, or of what stands in for it."""
    missing = chain.missing_id
    exact = [(table, (left, centre, right)) for table in chain.tables]
    bigrams = [
        (table, ids) for table in chain.tables for ids in ((left, centre, missing), (missing, centre, right))
    ]
    unigrams = [(table, (missing, centre, missing)) for table in chain.tables]
    for table, (first, second, third) in exact + bigrams + unigrams:
        vectors = _find(table, (first << 42) + (second << 21) + third)
        if vectors is not None:
            return vectors
    raise LookupError(f"no table holds the uni-gram of token {centre}")


def _find(table: PlotTable, key: int) -> Tensor | None:
    at = bisect_left(table.keys, key)
    if at == len(table.keys) or int(table.keys[at]) != key:
        return None
    return torch.from_numpy(np.array(table.vectors[at], dtype=np.float32))


def _layer(root: Root, layer: nn.Module, hidden: Tensor, hplm: Hplm, index: int) -> Tensor:
    """One upper layer of states [T, d], with the adapter behind its attention block."""
    weights = {name: _plain(value) for name, value in layer.named_parameters()}
    attended = _attention(weights, hidden, root.config.heads)
    attended = functional.linear(
        attended,
        weights["attention.output.dense.weight"],
        weights["attention.output.dense.bias"],
    )
    attended = _normalised(weights, "attention.output.LayerNorm", attended + hidden, root.bert.layer_norm_eps)
    adapted = _adapter(hplm, index, attended)
    inner = functional.linear(
        adapted, weights["intermediate.dense.weight"], weights["intermediate.dense.bias"]
    )
    inner = ACT2FN[root.bert.hidden_act](inner)
    outer = functional.linear(inner, weights["output.dense.weight"], weights["output.dense.bias"])
    return _normalised(weights, "output.LayerNorm", outer + adapted, root.bert.layer_norm_eps)


def _attention(weights: dict[str, Tensor], hidden: Tensor, heads: int) -> Tensor:
    def split(name: str) -> Tensor:
        weight, bias = weights[f"attention.self.{name}.weight"], weights[f"attention.self.{name}.bias"]
        return functional.linear(hidden, weight, bias).view(len(hidden), heads, -1).transpose(0, 1)

    query, key, value = split("query"), split("key"), split("value")
    scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
    context: Tensor = (scores.softmax(dim=-1) @ value).transpose(0, 1).flatten(1)
    return context


def _adapter(hplm: Hplm, index: int, states: Tensor) -> Tensor:
    """Paper, equation 1."""
    weights = hplm.adapter
    down = functional.linear(states, _plain(weights.down_w[index]), _plain(weights.down_b[index]))
    return functional.linear(down.relu(), _plain(weights.up_w[index]), _plain(weights.up_b[index])) + states


def _normalised(weights: dict[str, Tensor], name: str, states: Tensor, eps: float) -> Tensor:
    return functional.layer_norm(
        states, states.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps
    )


def _plain(value: Tensor) -> Tensor:
    return value.detach().to("cpu", torch.float32)
