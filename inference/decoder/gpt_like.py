"""Decoders with layer norms and learned positions: GPT-2, OPT."""

from collections.abc import Mapping
from typing import Any

from inference.decoder.architecture import ATTENTION_PROJECTIONS, DecoderArchitecture
from inference.decoder.family import DecoderFamily
from inference.hplm.checkpoint_config import (
    config_bool,
    config_int,
    config_layers,
    config_number,
    head_size_of,
    require,
    unsupported,
)


def _parse_gpt2(raw: Mapping[str, Any]) -> DecoderArchitecture:
    require(raw, "scale_attn_weights", True, "attention without scaling")
    require(raw, "scale_attn_by_inverse_layer_idx", False, "attention scaled by layer")
    require(raw, "add_cross_attention", False, "cross-attention")
    hidden, heads = config_int(raw, "n_embd", 768), config_int(raw, "n_head", 12)
    inner = raw.get("n_inner")
    return DecoderArchitecture(
        family="gpt2",
        vocab=config_int(raw, "vocab_size", 50257),
        hidden=hidden,
        inner=4 * hidden if inner is None else config_int(raw, "n_inner"),
        layers=config_layers(raw, "n_layer", 12),
        heads=heads,
        kv_heads=heads,
        head_size=head_size_of(hidden, heads),
        positions=config_int(raw, "n_positions", 1024),
        activation=str(raw.get("activation_function", "gelu_new")),
        eps=config_number(raw, "layer_norm_epsilon", 1e-5),
        norm="layer",
        gated=False,
        tied=config_bool(raw, "tie_word_embeddings", default=True),
        biases=(*ATTENTION_PROJECTIONS, "up", "down"),
    )


GPT2 = DecoderFamily(
    name="gpt2",
    prefix="transformer.",
    layer="h.{}.",
    layer_names={
        "attention_norm": "ln_1",
        "output": "attn.c_proj",
        "mlp_norm": "ln_2",
        "up": "mlp.c_fc",
        "down": "mlp.c_proj",
    },
    other_names={
        "embed.weight": "wte.weight",
        "positions.weight": "wpe.weight",
        "norm.weight": "ln_f.weight",
        "norm.bias": "ln_f.bias",
        "head.weight": "lm_head.weight",
    },
    parse=_parse_gpt2,
    fused={"attn.c_attn": ("query", "key", "value")},
    buffers=("attn",),  # the causal mask is `attn.bias`
    transposed=True,
)


def _parse_opt(raw: Mapping[str, Any]) -> DecoderArchitecture:
    require(raw, "do_layer_norm_before", True, "layer norm after the blocks")
    require(raw, "_remove_final_layer_norm", False, "a decoder without a final layer norm")
    require(raw, "layer_norm_elementwise_affine", True, "layer norm without weights")
    hidden, heads = config_int(raw, "hidden_size", 768), config_int(raw, "num_attention_heads", 12)
    embedding = raw.get("word_embed_proj_dim")
    if embedding is not None and embedding != hidden:
        raise unsupported(f"embeddings of {embedding} numbers, projected to {hidden}, are not supported")
    return DecoderArchitecture(
        family="opt",
        vocab=config_int(raw, "vocab_size", 50272),
        hidden=hidden,
        inner=config_int(raw, "ffn_dim", 3072),
        layers=config_layers(raw, default=12),
        heads=heads,
        kv_heads=heads,
        head_size=head_size_of(hidden, heads),
        positions=config_int(raw, "max_position_embeddings", 2048),
        activation=str(raw.get("activation_function", "relu")),
        eps=1e-5,
        norm="layer",
        gated=False,
        tied=config_bool(raw, "tie_word_embeddings", default=True),
        biases=(*ATTENTION_PROJECTIONS, "up", "down")
        if config_bool(raw, "enable_bias", default=True)
        else (),
        position_offset=2,
    )


OPT = DecoderFamily(
    name="opt",
    prefix="model.",
    layer="decoder.layers.{}.",
    layer_names={
        "attention_norm": "self_attn_layer_norm",
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "output": "self_attn.out_proj",
        "mlp_norm": "final_layer_norm",
        "up": "fc1",
        "down": "fc2",
    },
    other_names={
        "embed.weight": "decoder.embed_tokens.weight",
        "positions.weight": "decoder.embed_positions.weight",
        "norm.weight": "decoder.final_layer_norm.weight",
        "norm.bias": "decoder.final_layer_norm.bias",
        "head.weight": "lm_head.weight",
    },
    parse=_parse_opt,
)
