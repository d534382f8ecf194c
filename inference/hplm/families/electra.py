"""ELECTRA's discriminator: BERT's layers, with embeddings that may be narrower than they are."""

from inference.hplm.families.base import BERT_EMBEDDING_NAMES, BERT_LAYER_NAMES, Family, bert_like

ELECTRA = Family(
    name="electra",
    prefix="electra.",
    layer="encoder.layer.{}.",
    layer_names=BERT_LAYER_NAMES,
    embedding_names={
        **BERT_EMBEDDING_NAMES,
        "project.weight": "embeddings_project.weight",
        "project.bias": "embeddings_project.bias",
    },
    # A discriminator was never asked for words; a head is fitted when one is needed.
    head_names={},
    parse=lambda raw: bert_like(raw, "electra"),
)
