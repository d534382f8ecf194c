"""Reads a decoder, its tokenizer and its chat template from a GGUF file, as llama.cpp has them.

Quantized weights are dequantized once, to float32. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from torch import Tensor
from transformers.integrations.gguf.dequant import dequantize
from transformers.integrations.gguf.gguf_tokenizer_mapping import (
    GGUF_PRE_TOKENIZER_SPLITS,
    convert_gguf_tokenizer,
    get_gguf_tokenizer,
)
from transformers.integrations.gguf.reader import GgufHeader, load_gguf_state_dict, read_gguf_metadata

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.checkpoint import DecoderCheckpoint, checked_tokenizer, token_ids
from inference.decoder.decoder import check_weights
from inference.decoder.families import DECODER_FAMILIES
from inference.decoder.family import DecoderFamily
from inference.errors import HplmError
from inference.hplm.artifact_files import is_finite
from inference.hplm.checkpoint import sha256_of
from inference.machine_memory import check_weights_fit

_LAYER_NAMES: Final = {
    "attention_norm": "attn_norm",
    "query": "attn_q",
    "key": "attn_k",
    "value": "attn_v",
    "output": "attn_output",
    "query_norm": "attn_q_norm",
    "key_norm": "attn_k_norm",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
_OTHER_NAMES: Final = {
    "embed.weight": "token_embd.weight",
    "positions.weight": "position_embd.weight",
    "norm.weight": "output_norm.weight",
    "norm.bias": "output_norm.bias",
    "head.weight": "output.weight",
}
_LLAMA_FIELDS: Final = {
    "max_position_embeddings": "context_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "hidden_size": "embedding_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
_GPT2_FIELDS: Final = {
    "n_positions": "context_length",
    "n_layer": "block_count",
    "n_inner": "feed_forward_length",
    "n_embd": "embedding_length",
    "n_head": "attention.head_count",
    "layer_norm_epsilon": "attention.layer_norm_epsilon",
}
_FIELDS: Final = {
    "llama": _LLAMA_FIELDS,
    "qwen2": _LLAMA_FIELDS,
    "qwen3": _LLAMA_FIELDS,
    "gpt2": _GPT2_FIELDS,
}
"""For each family that llama.cpp knows: from the fields of a config.json to those of a GGUF file."""


def open_gguf_checkpoint(path: Path) -> DecoderCheckpoint:
    """Read the decoder in a GGUF file.

    Raises HplmError: out_of_memory, and unsupported_checkpoint for another family or variant, an unknown
    quantization, damaged, missing, misshapen or not finite weights, and a tokenizer of another kind.
    """
    check_weights_fit(path.stat().st_size)
    try:
        metadata, names = read_gguf_metadata(str(path))
        header = GgufHeader.from_file(str(path))
    except Exception as error:  # the reader raises many types
        raise HplmError("unsupported_checkpoint", f"{path.name} cannot be read as GGUF: {error}") from error
    family = _family_of(metadata)
    architecture = family.parse(_config(metadata, header, frozenset(names)))
    _refuse_variants(metadata, architecture)
    stored = _dequantized(path, header)
    architecture = _with_rotary_factors(architecture, stored)
    weights = _canonical(family, architecture, stored)
    check_weights(architecture, weights)
    begin, *ends = (metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "eot"))
    stops = list(dict.fromkeys(end for end in ends if end is not None))
    bos_id, stop_ids = next(iter(token_ids(begin, architecture)), None), token_ids(stops, architecture)
    return DecoderCheckpoint(
        name=path.stem,
        architecture=architecture,
        weights=weights,
        tokenizer=checked_tokenizer(_tokenizer_json(path), architecture),
        chat_template=str(metadata.get("tokenizer.chat_template", "")),
        bos_id=bos_id,
        stop_ids=stop_ids,
        sha256=sha256_of([path]),
    )


def _family_of(metadata: Mapping[str, Any]) -> DecoderFamily:
    """The family, with the names that its tensors have in a GGUF file."""
    kind = metadata["general.architecture"]
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise HplmError(
            "unsupported_checkpoint",
            f"GGUF architecture {kind!r} is not supported; {', '.join(_FIELDS)} are",
        )
    return replace(
        DECODER_FAMILIES[kind],
        prefix="",
        layer="blk.{}.",
        layer_names=_LAYER_NAMES,
        other_names=_OTHER_NAMES,
        fused={"attn_qkv": ("query", "key", "value")},
        transposed=False,
    )


def _config(metadata: Mapping[str, Any], header: GgufHeader, names: frozenset[str]) -> dict[str, Any]:
    """The config.json that says the same as the metadata."""
    kind = str(metadata["general.architecture"])
    shapes = {info.name: info.shape for info in header.tensors}
    scaling = str(metadata.get(f"{kind}.rope.scaling.type", "none"))
    config = {
        field: metadata[f"{kind}.{name}"]
        for field, name in _FIELDS[kind].items()
        if f"{kind}.{name}" in metadata
    }
    return {
        **config,
        "model_type": kind,
        "vocab_size": next(iter(shapes.get("token_embd.weight", ())), 0),
        "tie_word_embeddings": "output.weight" not in names,
        "attention_bias": "blk.0.attn_output.bias" in names,
        "mlp_bias": "blk.0.ffn_up.bias" in names,
        "rope_parameters": {
            "rope_theta": metadata.get(f"{kind}.rope.freq_base", 10_000.0),
            "rope_type": "default" if scaling == "none" else scaling,
            "factor": metadata.get(f"{kind}.rope.scaling.factor", 1.0),
        },
    }


def _refuse_variants(metadata: Mapping[str, Any], architecture: DecoderArchitecture) -> None:
    """Raise HplmError(unsupported_checkpoint) for what a config.json would say in other words."""
    kind = architecture.family
    if metadata.get(f"{kind}.attention.sliding_window"):
        raise HplmError("unsupported_checkpoint", "GGUF: sliding window attention is not supported")
    rotated = metadata.get(f"{kind}.rope.dimension_count", architecture.head_size)
    if architecture.rotary is not None and rotated != architecture.head_size:
        raise HplmError("unsupported_checkpoint", "GGUF: partial rotary embeddings are not supported")


def _with_rotary_factors(
    architecture: DecoderArchitecture, stored: Mapping[str, Tensor]
) -> DecoderArchitecture:
    factors = stored.get("rope_freqs.weight")
    if factors is None or architecture.rotary is None:
        return architecture
    rotary = replace(architecture.rotary, factors=tuple(factors.flatten().tolist()))
    return replace(architecture, rotary=rotary)


def _dequantized(path: Path, header: GgufHeader) -> dict[str, Tensor]:
    """The tensors by their names in the file, float32."""
    found: dict[str, Tensor] = {}
    shapes = {info.name: info.shape for info in header.tensors}
    for name, stored in load_gguf_state_dict(header).items():
        try:
            data: Tensor = stored[...]
            is_quantized = data.dtype == torch.uint8
            value = dequantize(data, stored.ggml_type) if is_quantized else data.float()
            value = value.reshape(shapes[name])
        except Exception as error:  # a cut file, or a shape that its data does not have
            raise HplmError("unsupported_checkpoint", f"{path.name}: {name}: {error}") from error
        if value.numel() and not is_finite(value):
            raise HplmError("unsupported_checkpoint", f"{path.name}: {name} holds NaN or infinite numbers")
        found[name] = value
    return found


def _canonical(
    family: DecoderFamily, architecture: DecoderArchitecture, stored: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    weights = family.canonical(stored, architecture)
    if family.name != "llama":
        return weights
    heads = {"query": architecture.heads, "key": architecture.kv_heads}
    for name, value in weights.items():
        projection = name.split(".")[-2]
        if projection in heads:
            weights[name] = _split_halves(value, heads[projection], name)
    return weights


def _split_halves(value: Tensor, heads: int, name: str) -> Tensor:
    """Outputs of a LLaMA projection in the order of `rotary.rotate`.

    llama.cpp stores the two numbers that are rotated together side by side.
    """
    if len(value) % (2 * heads):
        raise HplmError("unsupported_checkpoint", f"{name} has {len(value)} outputs for {heads} heads")
    pairs = value.reshape(heads, -1, 2, *value.shape[1:])
    return pairs.transpose(1, 2).reshape(value.shape)


def _tokenizer_json(path: Path) -> str:
    """The content of a tokenizer.json."""
    try:
        kind, content, config = get_gguf_tokenizer(str(path))
        tokenizer: Tokenizer = convert_gguf_tokenizer(kind, content)[0]
        _set_pre_tokenizer(tokenizer, content)
        if config.get("add_bos_token") and config["bos_token"] is not None:
            begin = config["bos_token"]
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{begin} $A", special_tokens=[(begin, tokenizer.token_to_id(begin))]
            )
        raw = json.loads(tokenizer.to_str())
        # transformers adds tokens that its classes expect, and that the model does not have.
        raw["added_tokens"] = [token for token in raw["added_tokens"] if token["id"] < len(content["tokens"])]
        return json.dumps(raw, ensure_ascii=False)
    except Exception as error:  # the conversion raises many types
        raise HplmError("unsupported_checkpoint", f"{path.name}: its tokenizer: {error}") from error


def _set_pre_tokenizer(tokenizer: Tokenizer, content: Mapping[str, Any]) -> None:
    """Split texts into words as the model's own tokenizer does, where transformers does not.

    Raises ValueError for a byte-level tokenizer whose words are split in a way that is not known: texts would
    become other tokens than in training.
    """
    words = content.get("pre_tokenizer_type", "default")
    if content.get("tokenizer_type") != "gpt2" or words in {"default", "gpt-2", *GGUF_PRE_TOKENIZER_SPLITS}:
        return
    if words != "smollm":
        raise ValueError(f"pre-tokenizer {words!r} is not supported")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
