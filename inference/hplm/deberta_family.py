"""DeBERTa-v2 and -v3: disentangled attention, with relative positions as keys and queries of their own."""

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor
from torch.nn import functional

from inference.hplm.architecture import Architecture
from inference.hplm.bert_families import (
    BERT_EMBEDDING_NAMES,
    BERT_HEAD_NAMES,
    BERT_LAYER_NAMES,
    bert_sizes,
)
from inference.hplm.checkpoint_config import config_bool, config_int, unsupported
from inference.hplm.family import Family, Tensors, unfit
from inference.hplm.relative_positions import RelativePositions
from inference.text.sentencepiece import SENTENCEPIECE_FILE

_PARTS: Final = {"c2p": "keys", "p2c": "queries"}
_POSITIONS, _NORM = "positions", "positions_norm"
_MAPS: Final = {"keys": ("position_key", "key"), "queries": ("position_query", "query")}
"""What makes a layer's table of the embeddings of positions: a map of its own, else that of the content."""


def _parse(raw: Mapping[str, Any]) -> Architecture:
    sizes = bert_sizes({"layer_norm_eps": 1e-7, **raw})
    if config_int(raw, "conv_kernel_size", 0) > 0:
        raise unsupported("conv_kernel_size: a convolution beside the first layer is not supported")
    if sizes["embedding"] != sizes["hidden"]:
        raise unsupported("embedding_size: embeddings of another size than hidden_size are not supported")
    if (
        config_int(raw, "attention_head_size", sizes["hidden"] // max(sizes["heads"], 1)) * sizes["heads"]
        != (sizes["hidden"])
    ):
        raise unsupported("attention_head_size: heads must be as wide as hidden_size together")
    if not config_bool(raw, "relative_attention", default=False):
        raise unsupported("relative_attention: a DeBERTa without relative positions is not supported")
    return Architecture(
        family="deberta-v2",
        types=config_int(raw, "type_vocab_size", 0),
        position_embeddings=config_bool(raw, "position_biased_input", default=True),
        relative=_relative(raw, sizes["positions"]),
        **sizes,
    )


def _relative(raw: Mapping[str, Any], positions: int) -> RelativePositions:
    given = raw.get("pos_att_type") or []
    kinds = given.lower().split("|") if isinstance(given, str) else given
    if not isinstance(kinds, list) or not {str(kind).strip() for kind in kinds} <= _PARTS.keys():
        raise unsupported(f"pos_att_type {given!r} is not supported; {' and '.join(_PARTS)} are")
    longest = config_int(raw, "max_relative_positions", -1)
    longest = positions if longest < 1 else longest
    buckets = config_int(raw, "position_buckets", -1)
    return RelativePositions(
        span=buckets if buckets > 0 else longest,
        furthest=longest if buckets > 0 else 0,
        rounds_up=True,
        parts=tuple(part for kind, part in _PARTS.items() if kind in {str(one).strip() for one in kinds}),
    )


def _tables(found: Tensors, architecture: Architecture, raw: Mapping[str, Any]) -> Tensors:
    """The positions' keys and queries of each layer. They depend on nothing that is computed, so they are
    kept in place of the embeddings and maps that they are made of."""
    embeddings = _embeddings(found, architecture, _has_norm(raw))
    kept = {name: value for name, value in found.items() if not name.partition(".")[0].startswith(_POSITIONS)}
    for index in range(architecture.layers):
        for part, (own, shared) in _MAPS.items():
            name = own if f"layers.{index}.{own}.weight" in found else shared
            weight, bias = (found.get(f"layers.{index}.{name}.{end}") for end in ("weight", "bias"))
            for end in ("weight", "bias"):
                kept.pop(f"layers.{index}.{own}.{end}", None)
            if architecture.relative is None or part not in architecture.relative.parts:
                continue
            if weight is None or bias is None or weight.shape != (len(bias), architecture.hidden):
                raise unfit(f"layers.{index}.{name} is missing or not {architecture.hidden} wide")
            table = functional.linear(embeddings, weight.float(), bias.float())
            kept[f"layers.{index}.positions.{part}"] = table
    return kept


def _has_norm(raw: Mapping[str, Any]) -> bool:
    kinds = {kind.strip() for kind in str(raw.get("norm_rel_ebd", "none")).lower().split("|")}
    if not kinds <= {"none", "layer_norm"}:
        raise unsupported(f"norm_rel_ebd {raw['norm_rel_ebd']!r} is not supported")
    return "layer_norm" in kinds


def _embeddings(found: Tensors, architecture: Architecture, has_norm: bool) -> Tensor:
    """The embeddings of relative positions [rows, d], behind their norm if they have one."""
    assert architecture.relative is not None
    shape = (architecture.relative.rows, architecture.hidden)
    embeddings = found.get(f"{_POSITIONS}.weight")
    if embeddings is None or embeddings.shape != shape:
        raise unfit(f"encoder.rel_embeddings.weight is missing or not {list(shape)}")
    if not has_norm:
        return embeddings.float()
    weight, bias = (found.get(f"{_NORM}.{end}") for end in ("weight", "bias"))
    if weight is None or bias is None or weight.shape != shape[1:] or bias.shape != shape[1:]:
        raise unfit(f"encoder.LayerNorm is missing or not {architecture.hidden} wide")
    own = weight.float(), bias.float()
    return functional.layer_norm(embeddings.float(), shape[1:], *own, architecture.eps)


DEBERTA_V2: Final = Family(
    name="deberta-v2",
    prefix="deberta.",
    layer="encoder.layer.{}.",
    layer_names={
        **BERT_LAYER_NAMES,
        "query": "attention.self.query_proj",
        "key": "attention.self.key_proj",
        "value": "attention.self.value_proj",
        "position_key": "attention.self.pos_key_proj",
        "position_query": "attention.self.pos_query_proj",
    },
    embedding_names=BERT_EMBEDDING_NAMES,
    other_names={
        f"{_POSITIONS}.weight": "encoder.rel_embeddings.weight",
        f"{_NORM}.weight": "encoder.LayerNorm.weight",
        f"{_NORM}.bias": "encoder.LayerNorm.bias",
        # The head as transformers saves it; published checkpoints have the other.
        **{f"head.{name}": theirs for name, theirs in BERT_HEAD_NAMES.items()},
    },
    head_names={
        "dense.weight": "lm_predictions.lm_head.dense.weight",
        "dense.bias": "lm_predictions.lm_head.dense.bias",
        "norm.weight": "lm_predictions.lm_head.LayerNorm.weight",
        "norm.bias": "lm_predictions.lm_head.LayerNorm.bias",
        "bias": "lm_predictions.lm_head.bias",
    },
    parse=_parse,
    position_tables=_tables,
    tokenizer_model=SENTENCEPIECE_FILE,
)
