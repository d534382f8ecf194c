"""Every family's checkpoint, as its own library saves it, computes here what it computes there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.activations import ACT2FN

from inference.errors import HplmError
from inference.hplm.architecture import make_activation
from inference.hplm.artifact_files import write_json
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from tests.unit.families import FAMILIES, SIZES, VOCAB, published
from tests.unit.tiny import WORDS

DEBERTA = {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": "p2c|c2p"}


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
        ({"model_type": "deberta"}, "deberta-v2 is supported"),
        ({"model_type": "deberta-v2"}, "relative_attention"),
        ({**DEBERTA, "conv_kernel_size": 3}, "conv_kernel_size"),
        ({**DEBERTA, "embedding_size": 16}, "embedding_size"),
        ({**DEBERTA, "pos_att_type": "p2p|c2p"}, "pos_att_type"),
        ({**DEBERTA, "position_buckets": 80}, "relative positions"),
        ({"model_type": "mpnet", "relative_attention_num_buckets": 64}, "relative_attention_num_buckets"),
        ({"model_type": "mpnet", "is_decoder": True}, "decoder"),
        ({"model_type": "modernbert", "hidden_activation": "wobble"}, "wobble"),
        ({"model_type": "modernbert", "classifier_activation": "relu"}, "classifier_activation"),
        ({"model_type": "modernbert", "num_attention_heads": 32}, "rotary"),
        ({"model_type": "modernbert", "local_attention": 0}, "local_attention"),
        ({"model_type": "modernbert", "layer_types": ["full_attention"]}, "rotary"),
        ({"model_type": "modernbert", "layer_types": ["causal"] * 4}, "layer_types"),
        ({"model_type": "modernbert", "global_rope_theta": -1}, "global_rope_theta"),
        ({"model_type": "modernbert", "rope_scaling": {"type": "yarn", "factor": 2}}, "yarn"),
        ({"model_type": "nomic_bert", "rope_parameters": {"rope_type": "dynamic"}}, "dynamic"),
        ({"model_type": "nomic_bert", "n_embd": 32, "moe_every_n_layers": 2}, "moe_every_n_layers"),
        ({"model_type": "nomic_bert", "n_embd": 32, "rotary_emb_fraction": 0.5}, "rotary_emb_fraction"),
        ({"model_type": "nomic_bert", "n_embd": 32, "activation_function": "gelu"}, "activation_function"),
        ({"model_type": "gte", "rope_scaling": {"type": "ntk", "factor": 8.0}}, "ntk"),
        ({"model_type": "gpt2"}, "'gpt2' is not supported"),
        ({"model_type": None}, "None"),
        ({"model_type": "bert", "is_decoder": True}, "decoder"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "relative_key"),
        ({"model_type": "bert", "hidden_size": 30}, "heads"),
        ({"model_type": "bert", "hidden_size": 0}, "hidden"),
        ({"model_type": "bert", "hidden_size": "wide"}, "hidden_size"),
        ({"model_type": "bert", "intermediate_size": -48}, "inner"),
        ({"model_type": "bert", "type_vocab_size": -1}, "types"),
        ({"model_type": "bert", "layer_norm_eps": -1e-12}, "layer_norm_eps"),
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


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_that_do_not_fit_are_refused_by_name(family: str, tmp_path: Path) -> None:
    published(tmp_path, family)
    file = tmp_path / "model.safetensors"
    whole = load_file(file)
    last = max(name for name in whole if re.search(r"layers?\.3\.", name) and whole[name].dim() == 2)
    of_layer = last.replace(".3.", ".4.")
    strange = re.sub(r"(\.3\.).*", r"\1whirl.weight", last)
    for damaged, said in (
        ({**whole, of_layer: whole[last].clone()}, of_layer),
        ({**whole, strange: whole[last].clone()}, strange),
        ({name: value for name, value in whole.items() if name != last}, "Missing key"),
        ({**whole, last: whole[last][:, :5].clone()}, "size mismatch|shape"),
        ({**whole, last: whole[last][:5].clone()}, "size mismatch|shape"),
        ({**whole, last: whole[last] * torch.inf}, last),
    ):
        save_file(damaged, file)
        with pytest.raises(HplmError, match=said) as refused:
            Root.from_checkpoint(open_checkpoint(tmp_path))
        assert refused.value.code == "unsupported_checkpoint"


def test_a_published_nomic_bert_with_code_of_its_own_is_read_by_its_own_fields(tmp_path: Path) -> None:
    published(tmp_path, "nomic_bert")
    expected = open_checkpoint(tmp_path)
    own = {"n_embd": 32, "n_inner": 48, "n_layer": 4, "n_head": 4, "n_positions": 8192}
    more = {
        "vocab_size": VOCAB,
        "rotary_emb_base": 1000,
        "rotary_scaling_factor": 2,
        "max_trained_positions": 66,
    }
    about = {"model_type": "nomic_bert", "activation_function": "swiglu", "layer_norm_epsilon": 1e-12}
    write_json(tmp_path / "config.json", {**about, **own, **more})
    found = open_checkpoint(tmp_path)
    assert found.architecture == expected.architecture
    assert found.weights.keys() == expected.weights.keys()


@pytest.mark.parametrize("family", ["modernbert", "deberta-v2"])
def test_a_checkpoint_of_a_classifier_has_no_language_model_head(family: str, tmp_path: Path) -> None:
    published(tmp_path, family)
    weights = load_file(tmp_path / "model.safetensors")
    weights = {name: value for name, value in weights.items() if not name.endswith("decoder.bias")}
    weights = {name: value for name, value in weights.items() if not name.startswith("cls.")}
    save_file(weights, tmp_path / "model.safetensors")
    assert Root.from_checkpoint(open_checkpoint(tmp_path)).lm_head() is None


def test_published_deberta_heads_have_names_of_their_own(tmp_path: Path) -> None:
    published(tmp_path, "deberta-v2")
    expected = open_checkpoint(tmp_path).weights
    weights = load_file(tmp_path / "model.safetensors")
    renamed = {
        name.replace("cls.predictions.transform.", "lm_predictions.lm_head.").replace(
            "cls.predictions.", "lm_predictions.lm_head."
        ): value
        for name, value in weights.items()
    }
    save_file(renamed, tmp_path / "model.safetensors")
    assert open_checkpoint(tmp_path).weights.keys() == expected.keys()


def test_a_modernbert_may_have_the_tokenizer_of_another_family(tmp_path: Path) -> None:
    published(tmp_path / "checkpoint", "modernbert")
    tokenizer = json.loads((tmp_path / "checkpoint" / "tokenizer.json").read_text())
    names = {"[PAD]": "<pad>", "[CLS]": "<bos>", "[SEP]": "<eos>", "[MASK]": "<mask>", "[UNK]": "<unk>"}
    text = json.dumps(tokenizer)
    for usual, other in names.items():
        text = text.replace(usual, other)
    (tmp_path / "checkpoint" / "tokenizer.json").write_text(text)
    root = Root.from_checkpoint(open_checkpoint(tmp_path / "checkpoint"))
    root.save(tmp_path / "root")
    found = Root.load(tmp_path / "root").tokenizer
    assert [root.config.cls_id, root.config.sep_id] == [found.cls_id, found.sep_id] == [2, 3]


def test_a_deberta_without_the_norm_of_its_positions_is_refused(tmp_path: Path) -> None:
    published(tmp_path, "deberta-v2")
    weights = load_file(tmp_path / "model.safetensors")
    del weights["deberta.encoder.LayerNorm.weight"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(HplmError, match=r"encoder\.LayerNorm"):
        open_checkpoint(tmp_path)
