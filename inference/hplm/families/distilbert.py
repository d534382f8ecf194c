"""DistilBERT: BERT's layers under other names, without token types."""

from collections.abc import Mapping
from typing import Any

from inference.hplm.architecture import Architecture
from inference.hplm.families.base import BERT_EMBEDDING_NAMES, Family, number


def _parse(raw: Mapping[str, Any]) -> Architecture:
    hidden = number(raw, "dim")
    return Architecture(
        family="distilbert",
        vocab=number(raw, "vocab_size"),
        hidden=hidden,
        inner=number(raw, "hidden_dim"),
        layers=number(raw, "n_layers"),
        heads=number(raw, "n_heads"),
        positions=number(raw, "max_position_embeddings", 512),
        activation=str(raw.get("activation", "gelu")),
        eps=1e-12,
        embedding=hidden,
    )


DISTILBERT = Family(
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
    parse=_parse,
)
