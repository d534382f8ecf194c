"""Tiny decoders as GGUF files, written by llama.cpp's own package."""

from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, get_tensor_name_map, quantize
from numpy.typing import NDArray

from tests.unit.tiny_decoder import BOS, CHAT_TEMPLATE, EOS, byte_tokenizer, tiny_decoder_model

Array = NDArray[np.float32]


def write_gguf(
    path: Path,
    family: str,
    *,
    quantization: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
    tensors: dict[str, Array | None] | None = None,
    **changes: Any,
) -> Path:
    """The tiny decoder of that family. Matrices of layers are stored in `quantization`; `metadata` and
    `tensors` replace or (None) leave out what the file would say."""
    model = tiny_decoder_model(family, **changes)
    writer = GGUFWriter(path, family)
    for key, value in {**_fields(family, model.config), **_tokenizer_fields(), **(metadata or {})}.items():
        _add(writer, key, value)
    for name, value in {**_named_tensors(family, model), **(tensors or {})}.items():
        if value is None:
            continue
        if value.ndim == 2 and name.startswith("blk."):
            writer.add_tensor(name, quantize(value, quantization), raw_dtype=quantization)
        else:
            writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif value is not None:
        writer.add_array(key, value)


def _fields(family: str, config: Any) -> dict[str, Any]:
    shared = {
        f"{family}.context_length": config.max_position_embeddings,
        f"{family}.block_count": config.num_hidden_layers,
        f"{family}.embedding_length": config.hidden_size,
        f"{family}.attention.head_count": config.num_attention_heads,
    }
    if family == "gpt2":
        return {
            **shared,
            "gpt2.feed_forward_length": config.n_inner or 4 * config.n_embd,
            "gpt2.attention.layer_norm_epsilon": config.layer_norm_epsilon,
        }
    rope = config.rope_parameters
    return {
        **shared,
        f"{family}.feed_forward_length": config.intermediate_size,
        f"{family}.attention.head_count_kv": config.num_key_value_heads,
        f"{family}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{family}.attention.key_length": getattr(config, "head_dim", None),
        f"{family}.rope.freq_base": float(rope["rope_theta"]),
        f"{family}.rope.scaling.type": None if rope["rope_type"] == "default" else rope["rope_type"],
        f"{family}.rope.scaling.factor": rope.get("factor"),
    }


def _tokenizer_fields() -> dict[str, Any]:
    tokenizer: tokenizers.Tokenizer = byte_tokenizer()
    tokens = [tokenizer.id_to_token(index) for index in range(tokenizer.get_vocab_size())]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if index in (BOS, EOS) else 1 for index in range(len(tokens))],
        "tokenizer.ggml.merges": ["Ġ t", "h e", "Ġt he"],
        "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": EOS,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _named_tensors(family: str, model: Any) -> dict[str, Array]:
    (architecture,) = (number for number, name in MODEL_ARCH_NAMES.items() if name == family)
    names = get_tensor_name_map(architecture, model.config.num_hidden_layers)
    found = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        array: Array = value.numpy()
        if family == "gpt2" and array.ndim == 2 and ".h." in name:
            array = array.T
        if family == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = model.config.num_attention_heads
            array = _interleaved(array, heads if ".q_proj." in name else model.config.num_key_value_heads)
        ours = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert ours is not None, name
        found[ours] = np.ascontiguousarray(array)
    return found


def _interleaved(array: Array, heads: int) -> Array:
    """As llama.cpp's converter permutes queries and keys."""
    halves = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)
