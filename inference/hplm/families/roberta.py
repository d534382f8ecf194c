"""RoBERTa and XLM-R: BERT's layers, other tokens, and positions that begin behind the padding's."""

from collections.abc import Mapping
from typing import Any

from inference.hplm.architecture import Architecture
from inference.hplm.families.base import (
    BERT_EMBEDDING_NAMES,
    BERT_LAYER_NAMES,
    Family,
    Specials,
    bert_like,
    number,
)

SPECIALS = Specials("<pad>", "<s>", "</s>", "<mask>", "<unk>", separators=2)
HEAD_NAMES = {
    "dense.weight": "lm_head.dense.weight",
    "dense.bias": "lm_head.dense.bias",
    "norm.weight": "lm_head.layer_norm.weight",
    "norm.bias": "lm_head.layer_norm.bias",
    "bias": "lm_head.bias",
}


def _parse(raw: Mapping[str, Any]) -> Architecture:
    return bert_like(raw, str(raw["model_type"]), position_offset=number(raw, "pad_token_id", 1) + 1)


def _family(name: str) -> Family:
    return Family(
        name=name,
        prefix="roberta.",
        layer="encoder.layer.{}.",
        layer_names=BERT_LAYER_NAMES,
        embedding_names=BERT_EMBEDDING_NAMES,
        head_names=HEAD_NAMES,
        parse=_parse,
        specials=SPECIALS,
    )


ROBERTA, XLM_ROBERTA = _family("roberta"), _family("xlm-roberta")
