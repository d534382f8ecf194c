"""BERT."""

from inference.hplm.families.base import BERT_EMBEDDING_NAMES, BERT_LAYER_NAMES, Family, bert_like

BERT = Family(
    name="bert",
    prefix="bert.",
    layer="encoder.layer.{}.",
    layer_names=BERT_LAYER_NAMES,
    embedding_names=BERT_EMBEDDING_NAMES,
    head_names={
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "norm.weight": "cls.predictions.transform.LayerNorm.weight",
        "norm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    },
    parse=lambda raw: bert_like(raw, "bert"),
    pooler="pooler.dense",
)
