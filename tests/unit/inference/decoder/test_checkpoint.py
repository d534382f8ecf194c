"""Decoders are read from folders as published, and what is damaged or not supported is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.errors import HplmError
from tests.unit.inference.decoder.packing import logits_of, random_sequences
from tests.unit.tiny_decoder import (
    BOS,
    CHAT_TEMPLATE,
    EOS,
    FAMILIES,
    VOCAB,
    tiny_decoder,
    tiny_decoder_folder,
)

LATER_FIELDS = (
    "block_norm",
    "norm_offset",
    "window",
    "local_layers",
    "local_rotary",
    "unrotated_layers",
    "embedding_scale",
    "attention_scale",
    "residual_scale",
    "logits_scale",
)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each family."""
    parent = tmp_path_factory.mktemp("decoders")
    return {family: tiny_decoder_folder(parent / f"tiny-{family}", family) for family in FAMILIES}


@pytest.fixture
def folder(published: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a LLaMA that a test may damage."""
    return shutil.copytree(published["llama"], tmp_path / "copy")


def set_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def refused(source: str | Path) -> HplmError:
    with pytest.raises(HplmError) as caught:
        open_decoder_checkpoint(source)
    return caught.value


def unsupported(folder: Path) -> str:
    """The message of the refusal."""
    error = refused(folder)
    assert error.code == "unsupported_checkpoint"
    return error.message


def test_a_folder_is_read_with_its_tokenizer_and_chat_template(folder: Path) -> None:
    checkpoint = open_decoder_checkpoint(folder)
    assert checkpoint.name == "copy"
    assert checkpoint.chat_template == CHAT_TEMPLATE
    assert json.loads(checkpoint.tokenizer)["model"]["type"] == "BPE"
    assert (checkpoint.bos_id, checkpoint.stop_ids) == (BOS, (EOS,))
    assert len(checkpoint.sha256) == 64


def test_tokens_that_end_an_answer_are_those_of_the_generation_config(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS, 7]}))
    assert open_decoder_checkpoint(folder).stop_ids == (EOS, 7)


def test_a_chat_template_in_the_tokenizer_config_is_read_too(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert open_decoder_checkpoint(folder).chat_template == "{{ messages }}"


@pytest.mark.parametrize("family", FAMILIES)
def test_names_without_the_prefix_of_a_model_with_a_head_are_understood(
    published: dict[str, Path], tmp_path: Path, family: str
) -> None:
    folder = shutil.copytree(published[family], tmp_path / family)
    file = folder / "model.safetensors"
    prefix = {"gpt2": "transformer."}.get(family, "model.")
    save_file({name.removeprefix(prefix): value for name, value in load_file(file).items()}, file)
    found, expected = (open_decoder_checkpoint(path).weights for path in (folder, published[family]))
    assert found.keys() == expected.keys()


def test_an_older_config_says_rotary_scaling_in_other_fields(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"]
    old = {"rope_theta": 123.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    (folder / "config.json").write_text(json.dumps({**config, **old}))
    rotary = open_decoder_checkpoint(folder).architecture.rotary
    assert rotary is not None
    assert (rotary.theta, rotary.kind, rotary.factor) == (123.0, "linear", 2.0)


OLDER: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "rope_theta": 900.0,
        "rope_local_base_freq": 100.0,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "layer_types": None,
        "sliding_window_pattern": 2,
    },
    "smollm3": {"rope_theta": 2_000_000.0, "no_rope_layers": None, "no_rope_layer_interval": 2},
    "phi3": {"rope_theta": 500.0, "rope_scaling": None, "partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize("family", OLDER)
def test_an_older_config_says_the_same_of_the_layers(
    published: dict[str, Path], tmp_path: Path, family: str
) -> None:
    folder = shutil.copytree(published[family], tmp_path / "copy")
    set_config(folder, rope_parameters=None, **OLDER[family])
    found, expected = (open_decoder_checkpoint(path).architecture for path in (folder, published[family]))
    assert found == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_an_architecture_is_the_same_once_written_and_read(published: dict[str, Path], family: str) -> None:
    architecture = open_decoder_checkpoint(published[family]).architecture
    assert DecoderArchitecture.from_json(json.loads(json.dumps(architecture.to_json()))) == architecture


def test_an_architecture_without_the_fields_of_later_families_is_read(folder: Path) -> None:
    architecture = open_decoder_checkpoint(folder).architecture
    old = {name: value for name, value in architecture.to_json().items() if name not in LATER_FIELDS}
    assert DecoderArchitecture.from_json(old) == architecture


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_decoder_is_the_same_once_loaded(tmp_path: Path, family: str) -> None:
    decoder = tiny_decoder(family)
    decoder.save(tmp_path / "decoder.safetensors")
    loaded = Decoder.load(tmp_path / "decoder.safetensors", decoder.architecture)
    sequences = random_sequences((3, 6))
    with torch.no_grad():
        pairs = zip(logits_of(decoder, sequences), logits_of(loaded, sequences), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_a_saved_decoder_of_another_shape_is_corrupt(tmp_path: Path) -> None:
    tiny_decoder(intermediate_size=40).save(tmp_path / "decoder.safetensors")
    with pytest.raises(HplmError, match="has the shape") as caught:
        Decoder.load(tmp_path / "decoder.safetensors", tiny_decoder().architecture)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize(
    ("family", "changes", "word"),
    [
        ("llama", {"model_type": "bert"}, "bert"),
        ("llama", {"model_type": ["llama"]}, "llama"),
        ("llama", {"hidden_size": "wide"}, "hidden_size"),
        ("llama", {"hidden_size": 0}, "hidden"),
        ("llama", {"num_key_value_heads": 3}, "heads"),
        ("llama", {"num_hidden_layers": -1}, "layers"),
        ("llama", {"num_hidden_layers": 10**12}, "layers"),
        ("llama", {"max_position_embeddings": 10**12}, "max_position_embeddings"),
        ("llama", {"head_dim": 15}, "15"),
        ("llama", {"rms_norm_eps": "small"}, "rms_norm_eps"),
        ("llama", {"tie_word_embeddings": "no"}, "tie_word_embeddings"),
        ("llama", {"hidden_act": "mish"}, "mish"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 0}}, "positive"),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "llama3"),
        ("llama", {"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "layer"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial"),
        ("llama", {"bos_token_id": 999}, "999"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 3}, "sliding"),
        ("llama", {"use_sliding_window": True, "sliding_window": 8}, "sliding"),
        ("llama", {"model_type": "mixtral"}, "mixtral"),
        ("llama", {"model_type": "granitemoe", "num_local_experts": 4}, "mixture of experts"),
        ("llama", {"model_type": "qwen3_moe", "num_experts": 4}, "mixture of experts"),
        ("llama", {"hidden_size": 10**400}, "most"),
        ("llama", {"head_dim": 10**400}, "most"),
        ("llama", {"rope_parameters": {"rope_theta": 10**400}}, "rotary"),
        ("mistral", {"num_hidden_layers": 10**12}, "layers"),
        ("mistral", {"num_hidden_layers": -1}, "layers"),
        ("mistral", {"sliding_window": 0}, "sliding_window"),
        ("mistral", {"sliding_window": "wide"}, "sliding_window"),
        ("qwen2", {"use_sliding_window": "yes"}, "use_sliding_window"),
        ("gemma3_text", {"sliding_window": None}, "sliding_window"),
        ("gemma3_text", {"layer_types": ["sliding_attention"]}, "layer_types"),
        ("gemma3_text", {"layer_types": ["chunked_attention"] * 3}, "layer_types"),
        ("gemma3_text", {"layer_types": None, "sliding_window_pattern": 0}, "sliding_window_pattern"),
        ("gemma3_text", {"hidden_size": -64}, "hidden_size"),
        ("gemma3_text", {"layer_types": None, "num_hidden_layers": 10**12}, "layers"),
        ("gemma3_text", {"query_pre_attn_scalar": -1}, "query_pre_attn_scalar"),
        ("gemma3_text", {"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "later tokens"),
        ("gemma3_text", {"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}}, "yarn"),
        ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ("smollm3", {"no_rope_layers": [1, 0, "yes"]}, "no_rope_layers"),
        ("smollm3", {"no_rope_layers": None, "no_rope_layer_interval": 0}, "no_rope_layer_interval"),
        ("smollm3", {"no_rope_layers": None, "num_hidden_layers": 10**12}, "layers"),
        ("granite", {"attention_multiplier": 10**400}, "attention_multiplier"),
        ("granite", {"logits_scaling": 0}, "logits_scaling"),
        ("granite", {"residual_multiplier": -1.0}, "residual_multiplier"),
        ("granite", {"logits_scaling": 1e-320}, "multipliers"),
        ("phi3", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 4}}, "longrope"),
        ("phi3", {"rope_parameters": {"partial_rotary_factor": 1.5}}, "partial_rotary_factor"),
        ("phi3", {"rope_parameters": {"partial_rotary_factor": 0.01}}, "rotated"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scaled by layer"),
        ("gpt2", {"scale_attn_weights": False}, "scaling"),
        ("gpt2", {"add_cross_attention": True}, "cross-attention"),
        ("gpt2", {"n_head": 5}, "heads"),
        ("opt", {"do_layer_norm_before": False}, "layer norm after"),
        ("opt", {"word_embed_proj_dim": 32}, "projected"),
        ("opt", {"_remove_final_layer_norm": True}, "final layer norm"),
        ("opt", {"layer_norm_elementwise_affine": False}, "without weights"),
    ],
)
def test_another_kind_of_model_is_unsupported(
    published: dict[str, Path], tmp_path: Path, family: str, changes: dict[str, Any], word: str
) -> None:
    folder = shutil.copytree(published[family], tmp_path / "copy")
    set_config(folder, **changes)
    assert word in unsupported(folder)


@pytest.mark.parametrize(
    ("family", "changes", "word"),
    [
        ("llama", {"intermediate_size": 40}, "gate"),
        ("llama", {"num_hidden_layers": 4}, "layers.3"),
        ("llama", {"num_hidden_layers": 2}, "layers.2"),
        ("llama", {"tie_word_embeddings": False}, "head.weight"),
        ("qwen2", {"model_type": "llama"}, "bias"),
        ("phi3", {"intermediate_size": 40}, "gate_up_proj"),
        ("phi3", {"num_key_value_heads": 1}, "qkv_proj"),
        ("gpt2", {"n_embd": 32}, "c_attn"),
        ("opt", {"max_position_embeddings": 64}, "positions"),
    ],
)
def test_weights_that_differ_from_the_configuration_are_unsupported(
    published: dict[str, Path], tmp_path: Path, family: str, changes: dict[str, Any], word: str
) -> None:
    folder = shutil.copytree(published[family], tmp_path / "copy")
    set_config(folder, **changes)
    assert word in unsupported(folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", b"{"),
        ("tokenizer.json", b"{}"),
        ("chat_template.jinja", b"\xff\xfe"),
        ("generation_config.json", b"[]"),
    ],
)
def test_a_damaged_file_beside_the_weights_is_unsupported(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    assert file in unsupported(folder)


def add_token(folder: Path, text: str) -> None:
    """Add a token behind the vocabulary."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([text])
    assert tokenizer.get_vocab()[text] >= VOCAB
    tokenizer.save(str(folder / "tokenizer.json"))


def test_a_placeholder_without_an_embedding_is_no_token(folder: Path) -> None:
    add_token(folder, "<image>")
    tokenizer = Tokenizer.from_str(open_decoder_checkpoint(folder).tokenizer)
    assert tokenizer.token_to_id("<image>") is None
    assert tokenizer.decode(tokenizer.encode("an <image>").ids) == "an <image>"


def test_a_token_of_chats_without_an_embedding_is_unsupported(folder: Path) -> None:
    add_token(folder, "[assistant]")
    assert str(VOCAB) in unsupported(folder)


@pytest.mark.parametrize("source", ["nowhere", "nowhere.gguf"])
def test_missing_checkpoint_is_not_found(tmp_path: Path, source: str) -> None:
    assert refused(tmp_path / source).code == "checkpoint_not_found"
