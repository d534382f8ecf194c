"""Every family's checkpoint, as its own library saves it, computes here what it computes there."""

from pathlib import Path
from typing import Any

import pytest
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

from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.errors import HplmError
from inference.hplm.json_files import write_json
from inference.hplm.root import Root
from tests.unit.tiny import WORDS, tiny_tokenizer

pytestmark = pytest.mark.unit
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


def padded_batch(pad: int, first: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three sequences of different lengths, padded."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([20, 7, 13])
    mask = torch.arange(20)[None, :] < lengths[:, None]
    ids = torch.randint(first, VOCAB, mask.shape, generator=generator)
    return ids.masked_fill(~mask, pad), mask


@pytest.mark.parametrize("family", FAMILIES)
def test_lower_and_upper_layers_together_are_the_original_model(family: str, tmp_path: Path) -> None:
    model = published(tmp_path, family)
    root = Root.from_checkpoint(open_checkpoint(tmp_path))
    ids, mask = padded_batch(root.config.pad_id, 10)
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask.long()}
    types = None
    if root.config.type_count > 1:
        types = (torch.arange(ids.shape[1]) >= 5).long().expand_as(ids)
        given["token_type_ids"] = types
    with torch.no_grad():
        expected = model.base_model(**given).last_hidden_state
        found = root.upper(root.checkpoint_lower()(ids, mask, types), mask)
    torch.testing.assert_close(found[mask], expected[mask], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "distilbert"])
def test_a_checkpoint_brings_its_language_model_head(family: str, tmp_path: Path) -> None:
    model = published(tmp_path, family)
    root = Root.from_checkpoint(open_checkpoint(tmp_path))
    head = root.lm_head()
    assert head is not None
    ids, mask = padded_batch(root.config.pad_id, 10)
    lower = root.checkpoint_lower()
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask.long()).logits
        found = head(root.upper(lower(ids, mask), mask), lower.word_embeddings)
    torch.testing.assert_close(found[mask], expected[mask], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stored_root_computes_the_same(family: str, tmp_path: Path) -> None:
    published(tmp_path / "checkpoint", family)
    root = Root.from_checkpoint(open_checkpoint(tmp_path / "checkpoint"), lower=1, n=2)
    root.save(tmp_path / "root")
    again = Root.load(tmp_path / "root")
    assert again.config == root.config
    ids, mask = padded_batch(root.config.pad_id, 10)
    with torch.no_grad():
        assert torch.equal(again.checkpoint_lower()(ids, mask), root.checkpoint_lower()(ids, mask))
        states = root.checkpoint_lower()(ids, mask)
        assert torch.equal(again.upper(states, mask), root.upper(states, mask))
    text, pair = " ".join(WORDS[:5]), " ".join(WORDS[5:9])
    assert again.tokenizer.encode(text, pair).ids.tolist() == root.tokenizer.encode(text, pair).ids.tolist()


def test_the_longest_text_of_a_family_whose_positions_begin_late_is_shorter(tmp_path: Path) -> None:
    published(tmp_path, "roberta")
    root = Root.from_checkpoint(open_checkpoint(tmp_path))
    assert root.config.max_tokens == 64
    ids, mask = torch.full((1, 64), 9), torch.ones(1, 64, dtype=torch.bool)
    assert torch.isfinite(root.checkpoint_lower()(ids, mask)).all()


def test_two_texts_are_framed_as_the_family_learnt_them(tmp_path: Path) -> None:
    published(tmp_path / "bert", "bert")
    published(tmp_path / "roberta", "roberta")
    bert_root = Root.from_checkpoint(open_checkpoint(tmp_path / "bert"))
    roberta_root = Root.from_checkpoint(open_checkpoint(tmp_path / "roberta"))
    plain = bert_root.tokenizer.encode("river stone", "cloud")
    assert plain.sequence.tolist() == [-1, 0, 0, -1, 1, -1]
    assert plain.types.tolist() == [0, 0, 0, 0, 1, 1]
    doubled = roberta_root.tokenizer.encode("ab", "c")
    cls, sep = roberta_root.config.cls_id, roberta_root.config.sep_id
    assert doubled.ids.tolist()[::3] == [cls, sep, sep]
    assert doubled.sequence.tolist() == [-1, 0, 0, -1, -1, 1, -1]
    assert not doubled.types.any()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model_type": "deberta-v2"}, "position"),
        ({"model_type": "gpt2"}, "'gpt2' is not supported"),
        ({"model_type": "bert", "is_decoder": True}, "decoder"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "relative_key"),
        ({"model_type": "bert", "hidden_size": 30}, "heads"),
        ({"model_type": "bert", "hidden_size": "wide"}, "hidden_size"),
        ({"model_type": "bert", "hidden_act": "wobble"}, "wobble"),
        ({"model_type": "roberta", "max_position_embeddings": 2, "pad_token_id": 1}, "position"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(
    changed: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    write_json(tmp_path / "config.json", {**SIZES, **changed})
    with pytest.raises(HplmError, match=reason) as refused:
        open_checkpoint(tmp_path)
    assert refused.value.code == "unsupported_checkpoint"
