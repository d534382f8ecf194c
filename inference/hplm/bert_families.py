"""Families whose layers are BERT's: BERT, RoBERTa, XLM-R, DistilBERT, ELECTRA; and MPNet, which has relative
positions beside."""

from collections.abc import Mapping
from typing import Any, Final

import torch

from inference.hplm.architecture import Architecture
from inference.hplm.checkpoint_config import (
    config_bool,
    config_int,
    config_layers,
    config_number,
    require,
    unsupported,
)
from inference.hplm.family import Family, Tensors, unfit
from inference.hplm.relative_positions import RelativePositions


def bert_sizes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an architecture that most families have under BERT's names. Raises
    HplmError(unsupported_checkpoint) for decoders."""
    if config_bool(raw, "is_decoder", default=False) or raw.get("add_cross_attention"):
        raise unsupported("a decoder is not supported")
    hidden = config_int(raw, "hidden_size")
    return {
        "vocab": config_int(raw, "vocab_size"),
        "hidden": hidden,
        "inner": config_int(raw, "intermediate_size"),
        "layers": config_layers(raw),
        "heads": config_int(raw, "num_attention_heads"),
        "positions": config_int(raw, "max_position_embeddings", 512),
        "activation": str(raw.get("hidden_act", "gelu")),
        "eps": config_number(raw, "layer_norm_eps", 1e-12),
        "embedding": config_int(raw, "embedding_size", hidden),
    }


def _parse_bert(raw: Mapping[str, Any], family: str, *, position_offset: int = 0) -> Architecture:
    kind = raw.get("position_embedding_type") or "absolute"
    if kind != "absolute":
        raise unsupported(f"{kind} positions are not supported, only absolute ones")
    return Architecture(
        family=family,
        position_offset=position_offset,
        types=config_int(raw, "type_vocab_size", 2),
        **bert_sizes(raw),
    )


BERT_LAYER_NAMES: Final = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "output_norm": "output.LayerNorm",
}
BERT_EMBEDDING_NAMES: Final = {
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "types.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}
BERT_HEAD_NAMES: Final = {
    "dense.weight": "cls.predictions.transform.dense.weight",
    "dense.bias": "cls.predictions.transform.dense.bias",
    "norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "bias": "cls.predictions.bias",
}


BERT: Final = Family(
    name="bert",
    prefix="bert.",
    layer="encoder.layer.{}.",
    layer_names=BERT_LAYER_NAMES,
    embedding_names=BERT_EMBEDDING_NAMES,
    head_names=BERT_HEAD_NAMES,
    parse=lambda raw: _parse_bert(raw, "bert"),
    pooler="pooler.dense",
)


ROBERTA_HEAD_NAMES: Final = {
    "dense.weight": "lm_head.dense.weight",
    "dense.bias": "lm_head.dense.bias",
    "norm.weight": "lm_head.layer_norm.weight",
    "norm.bias": "lm_head.layer_norm.bias",
    "bias": "lm_head.bias",
}


def _roberta_family(name: str) -> Family:
    return Family(
        name=name,
        prefix="roberta.",
        layer="encoder.layer.{}.",
        layer_names=BERT_LAYER_NAMES,
        embedding_names=BERT_EMBEDDING_NAMES,
        head_names=ROBERTA_HEAD_NAMES,
        parse=lambda raw: _parse_bert(raw, name, position_offset=config_int(raw, "pad_token_id", 1) + 1),
    )


ROBERTA: Final = _roberta_family("roberta")
XLM_ROBERTA: Final = _roberta_family("xlm-roberta")


def _parse_distilbert(raw: Mapping[str, Any]) -> Architecture:
    hidden = config_int(raw, "dim")
    return Architecture(
        family="distilbert",
        vocab=config_int(raw, "vocab_size"),
        hidden=hidden,
        inner=config_int(raw, "hidden_dim"),
        layers=config_layers(raw, "n_layers"),
        heads=config_int(raw, "n_heads"),
        positions=config_int(raw, "max_position_embeddings", 512),
        activation=str(raw.get("activation", "gelu")),
        eps=1e-12,
        embedding=hidden,
    )


DISTILBERT: Final = Family(
    name="distilbert",
    prefix="distilbert.",
    layer="transformer.layer.{}.",
    layer_names={
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "output": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "expand": "ffn.lin1",
        "contract": "ffn.lin2",
        "output_norm": "output_layer_norm",
    },
    embedding_names={name: theirs for name, theirs in BERT_EMBEDDING_NAMES.items() if name != "types.weight"},
    head_names={
        "dense.weight": "vocab_transform.weight",
        "dense.bias": "vocab_transform.bias",
        "norm.weight": "vocab_layer_norm.weight",
        "norm.bias": "vocab_layer_norm.bias",
        "bias": "vocab_projector.bias",
    },
    parse=_parse_distilbert,
)


ELECTRA: Final = Family(
    name="electra",
    prefix="electra.",
    layer="encoder.layer.{}.",
    layer_names=BERT_LAYER_NAMES,
    embedding_names={
        **BERT_EMBEDDING_NAMES,
        "project.weight": "embeddings_project.weight",
        "project.bias": "embeddings_project.bias",
    },
    # A discriminator has no language model head; one is fitted when needed.
    parse=lambda raw: _parse_bert(raw, "electra"),
)


MPNET_SPAN: Final = 16
_MPNET_FURTHEST: Final = 128


def _parse_mpnet(raw: Mapping[str, Any]) -> Architecture:
    require(raw, "relative_attention_num_buckets", 2 * MPNET_SPAN)
    relative = RelativePositions(
        span=MPNET_SPAN, furthest=_MPNET_FURTHEST, rounds_up=False, parts=("biases",)
    )
    # Its first position is fixed, whatever the padding's id is.
    return Architecture(family="mpnet", position_offset=2, relative=relative, **bert_sizes(raw))


def _mpnet_tables(found: Tensors, architecture: Architecture, _: Mapping[str, Any]) -> Tensors:
    """Give each layer the table that all share: first the rows of keys behind the query, nearest first, then
    of those ahead."""
    table = found.pop("positions", None)
    if table is None or table.shape != (2 * MPNET_SPAN, architecture.heads):
        shape = [2 * MPNET_SPAN, architecture.heads]
        raise unfit(f"encoder.relative_attention_bias.weight is missing or not {shape}")
    behind, ahead = table[:MPNET_SPAN], table[MPNET_SPAN:]
    ordered = torch.cat((ahead[:1], ahead[1:].flip(0), behind))
    return found | {f"layers.{index}.positions.biases": ordered for index in range(architecture.layers)}


MPNET: Final = Family(
    name="mpnet",
    prefix="mpnet.",
    layer="encoder.layer.{}.",
    layer_names={
        **BERT_LAYER_NAMES,
        "query": "attention.attn.q",
        "key": "attention.attn.k",
        "value": "attention.attn.v",
        "output": "attention.attn.o",
        "attention_norm": "attention.LayerNorm",
    },
    embedding_names={name: theirs for name, theirs in BERT_EMBEDDING_NAMES.items() if name != "types.weight"},
    other_names={"positions": "encoder.relative_attention_bias.weight"},
    head_names=ROBERTA_HEAD_NAMES,
    parse=_parse_mpnet,
    position_tables=_mpnet_tables,
)
