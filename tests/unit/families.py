"""Checkpoints of every family, random and tiny, as their own library saves them."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    ElectraConfig,
    ElectraModel,
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


def byte_level_tokenizer() -> tokenizers.Tokenizer:
    """A tokenizer of RoBERTa's kind: byte-level pieces and its own special tokens."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*specials, *letters])}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    return tokenizer


def bert() -> PreTrainedModel:
    return BertForMaskedLM(BertConfig(**SIZES))


def roberta() -> PreTrainedModel:
    return RobertaForMaskedLM(RobertaConfig(**SIZES, pad_token_id=1, type_vocab_size=1))


def xlm_roberta() -> PreTrainedModel:
    return XLMRobertaForMaskedLM(XLMRobertaConfig(**SIZES, pad_token_id=1, type_vocab_size=1))


def distilbert() -> PreTrainedModel:
    return DistilBertForMaskedLM(
        DistilBertConfig(
            vocab_size=VOCAB,
            dim=32,
            n_layers=4,
            n_heads=4,
            hidden_dim=48,
            max_position_embeddings=66,
            initializer_range=0.2,
        )
    )


def electra() -> PreTrainedModel:
    return ElectraModel(ElectraConfig(**SIZES, embedding_size=20))


FAMILIES = {
    "bert": bert,
    "roberta": roberta,
    "xlm-roberta": xlm_roberta,
    "distilbert": distilbert,
    "electra": electra,
}
TOKENIZERS: dict[str, Any] = {"roberta": byte_level_tokenizer, "xlm-roberta": byte_level_tokenizer}


def published(folder: Path, family: str) -> PreTrainedModel:
    """A random checkpoint of that family in `folder`, and the model it was saved from."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = FAMILIES[family]()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    TOKENIZERS.get(family, tiny_tokenizer)().save(str(folder / "tokenizer.json"))
    model.train(False)
    return model
