"""Checkpoints of every family, random and tiny, as their own library saves them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    ElectraConfig,
    ElectraModel,
    GteConfig,
    GteForMaskedLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    MPNetConfig,
    MPNetForMaskedLM,
    NomicBertConfig,
    NomicBertForMaskedLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

from tests.unit.tiny import tiny_tokenizer

VOCAB = 400
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
BEHIND_PADDING: dict[str, Any] = {"pad_token_id": 1}


def mpnet_tokenizer() -> tokenizers.Tokenizer:
    """A tokenizer with MPNet's special tokens: RoBERTa's, but BERT's for what is unknown."""
    return byte_level_tokenizer(unknown="[UNK]")


def byte_level_tokenizer(unknown: str = "<unk>") -> tokenizers.Tokenizer:
    """A tokenizer of RoBERTa's kind: byte-level pieces and its own special tokens."""
    specials = ["<s>", "<pad>", "</s>", unknown, "<mask>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*specials, *letters])}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    return tokenizer


def bert(**changes: Any) -> PreTrainedModel:
    return BertForMaskedLM(BertConfig(**{**SIZES, **changes}))


def roberta(**changes: Any) -> PreTrainedModel:
    return RobertaForMaskedLM(RobertaConfig(**{**SIZES, **BEHIND_PADDING, **changes}, type_vocab_size=1))


def xlm_roberta(**changes: Any) -> PreTrainedModel:
    sizes = {**SIZES, **BEHIND_PADDING, **changes}
    return XLMRobertaForMaskedLM(XLMRobertaConfig(**sizes, type_vocab_size=1))


def distilbert(**changes: Any) -> PreTrainedModel:
    sizes = {**SIZES, **changes}
    return DistilBertForMaskedLM(
        DistilBertConfig(
            vocab_size=VOCAB,
            dim=sizes["hidden_size"],
            n_layers=sizes["num_hidden_layers"],
            n_heads=sizes["num_attention_heads"],
            hidden_dim=sizes["intermediate_size"],
            max_position_embeddings=sizes["max_position_embeddings"],
            initializer_range=0.2,
        )
    )


def electra(**changes: Any) -> PreTrainedModel:
    return ElectraModel(ElectraConfig(**{**SIZES, "embedding_size": 20, **changes}))


def mpnet(**changes: Any) -> PreTrainedModel:
    return MPNetForMaskedLM(MPNetConfig(**{**SIZES, **BEHIND_PADDING, **changes}))


def modernbert(**changes: Any) -> PreTrainedModel:
    ends = {"pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    return ModernBertForMaskedLM(ModernBertConfig(**{**SIZES, **ends, **changes}))


def deberta_v2(**changes: Any) -> PreTrainedModel:
    """With the fields of a v3."""
    attention = {
        "relative_attention": True,
        "pos_att_type": "p2c|c2p",
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
    }
    return DebertaV2ForMaskedLM(DebertaV2Config(**{**SIZES, **attention, **changes}))


def nomic_bert(**changes: Any) -> PreTrainedModel:
    return NomicBertForMaskedLM(NomicBertConfig(**{**SIZES, **changes}))


def gte(**changes: Any) -> PreTrainedModel:
    return GteForMaskedLM(GteConfig(**{**SIZES, "pad_token_id": 0, **changes}))


FAMILIES: dict[str, Callable[..., PreTrainedModel]] = {
    "bert": bert,
    "roberta": roberta,
    "xlm-roberta": xlm_roberta,
    "distilbert": distilbert,
    "electra": electra,
    "mpnet": mpnet,
    "modernbert": modernbert,
    "deberta-v2": deberta_v2,
    "nomic_bert": nomic_bert,
    "gte": gte,
}
TOKENIZERS: dict[str, Any] = {
    "roberta": byte_level_tokenizer,
    "xlm-roberta": byte_level_tokenizer,
    "mpnet": mpnet_tokenizer,
}


def published(folder: Path, family: str, **changes: Any) -> PreTrainedModel:
    """A random checkpoint of that family in `folder`, and the model it was saved from. changes: of its
    config.json."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = FAMILIES[family](**changes)
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "relative_attention_bias.weight")):
                torch.nn.init.normal_(parameter, std=0.1)
            elif parameter.dim() == 1:  # of a norm
                torch.nn.init.normal_(parameter, mean=1.0, std=0.1)
    model.save_pretrained(folder)
    TOKENIZERS.get(family, tiny_tokenizer)().save(str(folder / "tokenizer.json"))
    model.train(False)
    return model
