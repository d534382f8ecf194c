"""A decoder root: what it keeps of a checkpoint, and what it refuses."""

import json
from pathlib import Path

import pytest
import torch

from inference.decoder.checkpoint import DecoderCheckpoint, open_decoder_checkpoint
from inference.decoder.dense_attention import DenseAttention
from inference.decoder.root import SPECIAL_TOKENS_FILE, WEIGHTS_FILE, DecoderRoot
from inference.errors import HplmError
from inference.hplm.artifact_files import read_weights, write_weights
from inference.hplm.sequences import PackedSequences
from inference.text.tokenization import DECODER_FILE, TOKENIZER_FILE
from tests.unit.tiny_decoder import (
    BOS,
    CHAT_TEMPLATE,
    EOS,
    FAMILIES,
    VOCAB,
    byte_tokenizer,
    tiny_decoder_folder,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> DecoderCheckpoint:
    return open_decoder_checkpoint(tiny_decoder_folder(tmp_path_factory.mktemp("llama")))


@pytest.fixture
def saved(checkpoint: DecoderCheckpoint, tmp_path: Path) -> Path:
    """The folder of a root."""
    DecoderRoot.from_checkpoint(checkpoint, name="tiny").save(tmp_path / "root")
    return tmp_path / "root"


def refusal(folder: Path) -> str:
    with pytest.raises(HplmError) as caught:
        DecoderRoot.load(folder)
    assert caught.value.code == "corrupt_artifact"
    return caught.value.message


@pytest.mark.parametrize("family", FAMILIES)
def test_saved_root_of_each_family_is_loaded_unchanged(family: str, tmp_path: Path) -> None:
    checkpoint = open_decoder_checkpoint(tiny_decoder_folder(tmp_path / "published", family))
    root = DecoderRoot.from_checkpoint(checkpoint)
    root.save(tmp_path / "root")
    loaded = DecoderRoot.load(tmp_path / "root")
    assert loaded.config == root.config
    assert (loaded.tokenizer, loaded.chat_template) == (checkpoint.tokenizer, CHAT_TEMPLATE)
    ids = torch.arange(5)
    attention = DenseAttention(PackedSequences((5,)))
    logits = [each.decoder().forward(ids, ids, attention) for each in (root, loaded)]
    assert torch.equal(*logits)


def test_the_texts_of_special_tokens_are_kept_for_chat_templates(saved: Path) -> None:
    special_tokens = json.loads((saved / SPECIAL_TOKENS_FILE).read_text())
    texts = {"bos_token": byte_tokenizer().id_to_token(BOS), "eos_token": byte_tokenizer().id_to_token(EOS)}
    assert special_tokens == texts


def test_a_third_of_the_layers_is_below_the_cut_unless_it_is_chosen(checkpoint: DecoderCheckpoint) -> None:
    assert DecoderRoot.from_checkpoint(checkpoint).config.lower_layers == 1
    assert DecoderRoot.from_checkpoint(checkpoint, lower_layers=0).config.lower_layers == 0
    assert DecoderRoot.from_checkpoint(checkpoint, lower_layers=2).config.lower_layers == 2


def test_a_cut_above_all_layers_is_refused(checkpoint: DecoderCheckpoint) -> None:
    with pytest.raises(HplmError, match="3 lower layers of 3") as caught:
        DecoderRoot.from_checkpoint(checkpoint, lower_layers=3)
    assert caught.value.code == "unsupported_checkpoint"


def test_the_weights_keep_their_number_format(tmp_path: Path) -> None:
    folder = tiny_decoder_folder(tmp_path / "published")
    file = folder / "model.safetensors"
    write_weights(file, {name: value.bfloat16() for name, value in read_weights(file).items()})
    DecoderRoot.from_checkpoint(open_decoder_checkpoint(folder)).save(tmp_path / "root")
    assert {value.dtype for value in DecoderRoot.load(tmp_path / "root").weights.values()} == {torch.bfloat16}


def test_a_checkpoint_without_a_chat_template_makes_a_root_without_one(tmp_path: Path) -> None:
    folder = tiny_decoder_folder(tmp_path / "published")
    (folder / "chat_template.jinja").unlink()
    DecoderRoot.from_checkpoint(open_decoder_checkpoint(folder)).save(tmp_path / "root")
    assert DecoderRoot.load(tmp_path / "root").chat_template == ""


@pytest.mark.parametrize("name", [DECODER_FILE, WEIGHTS_FILE, TOKENIZER_FILE])
def test_a_root_without_a_file_is_refused(name: str, saved: Path) -> None:
    (saved / name).unlink()
    assert name in refusal(saved)


def test_a_root_without_a_weight_is_refused(saved: Path) -> None:
    weights = read_weights(saved / WEIGHTS_FILE)
    del weights["layers.0.query.weight"]
    write_weights(saved / WEIGHTS_FILE, weights)
    assert "layers.0.query.weight" in refusal(saved)


@pytest.mark.parametrize(
    "change",
    [{"lower_layers": 3}, {"max_tokens": 10**6}, {"stop_ids": [10**6]}, {"architecture": None}, {"more": 1}],
)
def test_a_configuration_that_does_not_fit_is_refused(change: dict[str, object], saved: Path) -> None:
    content = json.loads((saved / DECODER_FILE).read_text())
    (saved / DECODER_FILE).write_text(json.dumps(content | change))
    refusal(saved)


def test_a_tokenizer_with_more_tokens_than_the_decoder_is_refused(saved: Path) -> None:
    content = json.loads((saved / TOKENIZER_FILE).read_text())
    content["model"]["vocab"]["one more"] = VOCAB
    (saved / TOKENIZER_FILE).write_text(json.dumps(content))
    assert f"the id {VOCAB}" in refusal(saved)
