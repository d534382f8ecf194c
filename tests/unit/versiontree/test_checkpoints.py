"""The first look at a checkpoint."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from inference.decoder.families import DECODER_FAMILIES
from inference.hplm.families import FAMILIES
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.checkpoints import SUPPORTED_MODEL_TYPES, checkpoint_max_tokens, checkpoint_source
from versiontree.tree.models import RootKind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A usable checkpoint, from outside."""
    made = tmp_path / "check point"
    made.mkdir()
    (made / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (made / "tokenizer.json").write_text("{}")
    (made / "model.safetensors").write_bytes(b"")
    return made


def refusal(source: str) -> ErrorCode:
    with pytest.raises(HmiError) as caught:
        checkpoint_source(source)
    assert caught.value.param == "source"
    return caught.value.code


def test_a_folder_is_kept_by_its_full_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkpoint_source(f" {folder} ") == str(folder)
    monkeypatch.chdir(folder.parent)
    assert checkpoint_source("check point") == str(folder)


@pytest.mark.parametrize("source", ["bert-base-uncased", "google-bert/bert-base-uncased", "a/b_c.d-1"])
def test_a_hub_id_is_kept_as_it_is(source: str) -> None:
    assert checkpoint_source(source) == source


@pytest.mark.parametrize("source", ["/nowhere/at/all", "a/b/c", "~nobody/x", "a\0b", "x" * 2000])
def test_source_that_is_neither_folder_nor_hub_id_is_not_found(source: str) -> None:
    assert refusal(source) == ErrorCode.CHECKPOINT_NOT_FOUND


@pytest.mark.parametrize("source", ["", "   "])
def test_a_source_is_needed(source: str) -> None:
    assert refusal(source) == ErrorCode.MISSING_FIELD


def test_a_file_is_no_folder(folder: Path) -> None:
    assert refusal(str(folder / "model.safetensors")) == ErrorCode.CHECKPOINT_NOT_FOUND


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.ckpt"])
def test_pickled_weights_are_refused_by_file_and_by_folder(name: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"\x80\x04")
    assert refusal(str(folder)) == ErrorCode.PICKLED_CHECKPOINT
    assert refusal(str(folder / name)) == ErrorCode.PICKLED_CHECKPOINT


def test_pickled_weights_beside_safetensors_are_left_alone(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    assert checkpoint_source(str(folder)) == str(folder)


def test_sharded_weights_are_accepted(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text("{}")
    assert checkpoint_source(str(folder)) == str(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_folder_without_a_needed_file_is_refused(name: str, folder: Path) -> None:
    (folder / name).unlink()
    assert refusal(str(folder)) == ErrorCode.UNSUPPORTED_CHECKPOINT


@pytest.mark.parametrize("config", ["{", "[]", '{"model_type": "gpt2"}', '{"model_type": ["bert"]}'])
def test_another_kind_of_model_is_refused(config: str, folder: Path) -> None:
    (folder / "config.json").write_text(config)
    assert refusal(str(folder)) == ErrorCode.UNSUPPORTED_CHECKPOINT


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_that_can_be_converted_is_let_through(family: str, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    assert checkpoint_source(str(folder)) == str(folder)
    assert set(SUPPORTED_MODEL_TYPES[RootKind.ENCODER]) == set(FAMILIES)


@pytest.mark.parametrize("family", DECODER_FAMILIES)
def test_every_family_of_decoders_is_let_through_as_a_decoder(family: str, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    assert checkpoint_source(str(folder), RootKind.DECODER) == str(folder)
    assert set(SUPPORTED_MODEL_TYPES[RootKind.DECODER]) == set(DECODER_FAMILIES)


@pytest.mark.parametrize(
    ("family", "registered_as", "advice"),
    [("bert", RootKind.DECODER, "as an encoder"), ("llama", RootKind.ENCODER, "as a decoder")],
)
def test_a_checkpoint_registered_as_the_other_kind_is_refused_with_advice(
    family: str, registered_as: RootKind, advice: str, folder: Path
) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    with pytest.raises(HmiError, match=advice) as caught:
        checkpoint_source(str(folder), registered_as)
    assert (caught.value.code, caught.value.param) == (ErrorCode.UNSUPPORTED_CHECKPOINT, "source")


def test_a_gguf_file_is_a_source_of_decoders_alone(folder: Path) -> None:
    file = folder / "model.gguf"
    file.write_bytes(b"GGUF and the rest")
    assert checkpoint_source(str(file), RootKind.DECODER) == str(file)
    assert refusal(str(file)) == ErrorCode.UNSUPPORTED_CHECKPOINT


def test_a_file_that_is_only_called_gguf_is_refused(folder: Path) -> None:
    file = folder / "model.gguf"
    file.write_bytes(b"PK")
    with pytest.raises(HmiError, match="no GGUF file"):
        checkpoint_source(str(file), RootKind.DECODER)


def test_the_command_for_pickled_weights_makes_a_checkpoint_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.ones(3), "b": torch.zeros(2, 2).t()}, folder / "pytorch_model.bin")
    with pytest.raises(HmiError) as caught:
        checkpoint_source(str(folder))
    command = caught.value.message.partition("any: ")[2]
    _, *arguments = shlex.split(command)
    subprocess.run([sys.executable, *arguments], check=True, cwd=folder)
    assert load_file(folder / "model.safetensors").keys() == {"a", "b"}
    assert checkpoint_source(str(folder)) == str(folder)


def test_a_deberta_may_have_a_sentencepiece_model_alone(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "spm.model")
    assert refusal(str(folder)) == ErrorCode.UNSUPPORTED_CHECKPOINT
    (folder / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    assert checkpoint_source(str(folder)) == str(folder)


def test_the_longest_text_is_shorter_where_positions_begin_behind_the_padding(folder: Path) -> None:
    about = {"max_position_embeddings": 514, "pad_token_id": 1}
    for family, longest in (("bert", 514), ("roberta", 512), ("xlm-roberta", 512), ("mpnet", 512)):
        (folder / "config.json").write_text(json.dumps({"model_type": family, **about}))
        assert checkpoint_max_tokens(folder) == longest


def test_looking_needs_no_torch() -> None:
    code = "import sys, versiontree.tree.checkpoints; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
