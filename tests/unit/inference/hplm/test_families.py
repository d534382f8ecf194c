"""Every family's checkpoint, as its own library saves it, computes here what it computes there."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.activations import ACT2FN

from inference.errors import HplmError
from inference.hplm.architecture import make_activation
from inference.hplm.artifact_files import write_json
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from tests.unit.families import FAMILIES, SIZES, VOCAB, published
from tests.unit.tiny import WORDS


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


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "electra"])
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


@pytest.mark.parametrize("name", ["gelu", "relu", "gelu_new"])
def test_an_activation_is_that_of_transformers(name: str) -> None:
    numbers = torch.linspace(-6, 6, 500)
    assert torch.equal(make_activation(name)(numbers), ACT2FN[name](numbers))


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
        ({"model_type": None}, "None"),
        ({"model_type": "bert", "is_decoder": True}, "decoder"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "relative_key"),
        ({"model_type": "bert", "hidden_size": 30}, "heads"),
        ({"model_type": "bert", "hidden_size": 0}, "hidden"),
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
