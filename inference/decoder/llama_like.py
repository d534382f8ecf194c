"""Decoders with RMS norms, rotary positions and a gated feed-forward block: LLaMA, and families whose layers
have parts more or less."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from inference.decoder.architecture import ATTENTION_PROJECTIONS, DecoderArchitecture
from inference.decoder.family import DecoderFamily
from inference.decoder.rotary import Rotary
from inference.hplm.checkpoint_config import (
    config_bool,
    config_int,
    config_layers,
    config_number,
    head_size_of,
    require,
    unsupported,
)

_LAYER_NAMES: Final = {
    "attention_norm": "input_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
    "query_norm": "self_attn.q_norm",
    "key_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_OTHER_NAMES: Final = {
    "embed.weight": "embed_tokens.weight",
    "norm.weight": "norm.weight",
    "head.weight": "lm_head.weight",
}
_FUSED: Final = {"self_attn.qkv_proj": ("query", "key", "value"), "mlp.gate_up_proj": ("gate", "up")}
_MLP: Final = ("gate", "up", "down")
_LOCAL, _GLOBAL = _KINDS = ("sliding_attention", "full_attention")


def _parse(raw: Mapping[str, Any], **parts: Any) -> DecoderArchitecture:
    """The architecture of a config.json with LLaMA's fields. parts: what the family's layers have beside, by
    the names of `DecoderArchitecture`."""
    hidden, heads = config_int(raw, "hidden_size"), config_int(raw, "num_attention_heads")
    kv_heads = heads if raw.get("num_key_value_heads") is None else config_int(raw, "num_key_value_heads")
    head_size = head_size_of(hidden, heads) if raw.get("head_dim") is None else config_int(raw, "head_dim")
    fields: dict[str, Any] = {
        "family": str(raw["model_type"]),
        "vocab": config_int(raw, "vocab_size"),
        "hidden": hidden,
        "inner": config_int(raw, "intermediate_size"),
        "layers": config_layers(raw),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_size": head_size,
        "positions": config_int(raw, "max_position_embeddings", 2048),
        "activation": str(raw.get("hidden_act", "silu")),
        "eps": config_number(raw, "rms_norm_eps", 1e-6),
        "norm": "rms",
        "gated": True,
        "tied": config_bool(raw, "tie_word_embeddings", default=False),
    }
    if "rotary" not in parts:
        fields["rotary"] = Rotary.parse(raw)
    return DecoderArchitecture(**{**fields, **parts})


def _with_defaults(raw: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json with the values that its family gives to fields that are not there."""
    return {**defaults, **raw}


def _attention_biases(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return ATTENTION_PROJECTIONS if config_bool(raw, "attention_bias", default=False) else ()


def _biases(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return _attention_biases(raw) + (_MLP if config_bool(raw, "mlp_bias", default=False) else ())


def _windows(raw: Mapping[str, Any], is_local: Callable[[int], bool]) -> dict[str, Any]:
    """The window, and the layers with it: those that `layer_types` names, or else `is_local`."""
    kinds, layers = raw.get("layer_types"), config_layers(raw)
    if kinds is None and raw.get("sliding_window") is None:
        return {}
    if kinds is None:
        kinds = [_LOCAL if is_local(layer) else _GLOBAL for layer in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in _KINDS for kind in kinds):
        raise unsupported(f"layer_types must name {' or '.join(_KINDS)} for each of the {layers} layers")
    local = tuple(layer for layer, kind in enumerate(kinds) if kind == _LOCAL)
    return {"window": config_int(raw, "sliding_window"), "local_layers": local} if local else {}


def _optional_windows(raw: Mapping[str, Any], is_local: Callable[[int], bool]) -> dict[str, Any]:
    """As `_windows`, in families where `use_sliding_window` turns them on."""
    is_on = config_bool(raw, "use_sliding_window", default=False)
    return _windows(raw if is_on else {**raw, "sliding_window": None}, is_local)


def _refuse_windows(raw: Mapping[str, Any]) -> None:
    """Raise HplmError(unsupported_checkpoint) if any layer sees only the last tokens."""
    if _optional_windows(raw, lambda _: True):
        raise unsupported("sliding window attention is not supported")


def _parse_llama(raw: Mapping[str, Any]) -> DecoderArchitecture:
    _refuse_windows(raw)
    return _parse(raw, biases=_biases(raw))


def _parse_mistral(raw: Mapping[str, Any]) -> DecoderArchitecture:
    raw = _with_defaults(
        raw, {"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131_072}
    )
    return _parse(raw, **_windows(raw, lambda _: True))


def _parse_qwen2(raw: Mapping[str, Any]) -> DecoderArchitecture:
    return _parse(raw, biases=("query", "key", "value"), **_upper_windows(raw))


def _parse_qwen3(raw: Mapping[str, Any]) -> DecoderArchitecture:
    raw = _with_defaults(raw, {"head_dim": 128})
    return _parse(raw, biases=_attention_biases(raw), query_key_norm=True, **_upper_windows(raw))


def _upper_windows(raw: Mapping[str, Any]) -> dict[str, Any]:
    lowest = config_int(raw, "max_window_layers", 28)
    return _optional_windows(raw, lambda layer: layer >= lowest)


def _parse_gemma3(raw: Mapping[str, Any]) -> DecoderArchitecture:
    raw = _with_defaults(raw, _GEMMA3_DEFAULTS)
    require(raw, "use_bidirectional_attention", False, "attention to later tokens")
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if raw.get(name) is not None:
            raise unsupported(f"{name} is not supported")
    pattern = _interval(raw, "sliding_window_pattern", 6)
    rotary, local_rotary = _rotary_by_kind(raw)
    return _parse(
        {**raw, "hidden_act": raw["hidden_activation"]},
        biases=_attention_biases(raw),
        rotary=rotary,
        local_rotary=local_rotary,
        query_key_norm=True,
        block_norm=True,
        norm_offset=1.0,
        embedding_scale=math.sqrt(config_number(raw, "hidden_size", 2304.0)),
        attention_scale=config_number(raw, "query_pre_attn_scalar", 256.0) ** -0.5,
        **_windows(raw, lambda layer: (layer + 1) % pattern != 0),
    )


_GEMMA3_DEFAULTS: Final = {
    "head_dim": 256,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131_072,
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "sliding_window": 4096,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
}


def _rotary_by_kind(raw: Mapping[str, Any]) -> tuple[Rotary, Rotary]:
    """The rotary embeddings of layers without a window and with one."""
    local = {"rope_theta": raw["rope_local_base_freq"]}
    given = raw.get("rope_parameters") or {}
    if isinstance(given, Mapping) and given.keys() & {_GLOBAL, _LOCAL}:
        everywhere = {"rope_theta": raw["rope_theta"], "rope_parameters": given.get(_GLOBAL)}
        return Rotary.parse(everywhere), Rotary.parse({**local, "rope_parameters": given.get(_LOCAL)})
    return Rotary.parse(raw), Rotary.parse(local)


def _parse_smollm3(raw: Mapping[str, Any]) -> DecoderArchitecture:
    raw = _with_defaults(raw, _SMOLLM3_DEFAULTS)
    unrotated = _unrotated_layers(raw)
    return _parse(
        raw,
        biases=_biases(raw),
        unrotated_layers=unrotated,
        **_optional_windows(raw, lambda layer: layer in unrotated),
    )


_SMOLLM3_DEFAULTS: Final = {
    "num_key_value_heads": 4,
    "max_position_embeddings": 32_768,
    "tie_word_embeddings": True,
    "rope_theta": 2_000_000.0,
}


def _unrotated_layers(raw: Mapping[str, Any]) -> tuple[int, ...]:
    """The layers that `no_rope_layers` has a 0 for, or else one layer of each `no_rope_layer_interval`."""
    layers, flags = config_layers(raw), raw.get("no_rope_layers")
    if flags is None:
        interval = _interval(raw, "no_rope_layer_interval", 4)
        return tuple(range(interval - 1, layers, interval))
    if not isinstance(flags, list) or len(flags) < layers or not all(flag in (0, 1) for flag in flags):
        raise unsupported(f"no_rope_layers must have 0 or 1 for each of the {layers} layers")
    return tuple(layer for layer in range(layers) if not flags[layer])


def _interval(raw: Mapping[str, Any], name: str, default: int) -> int:
    interval = config_int(raw, name, default)
    if interval < 1:
        raise unsupported(f"{name} is {interval}, not a positive number")
    return interval


def _parse_granite(raw: Mapping[str, Any]) -> DecoderArchitecture:
    _refuse_windows(raw)
    return _parse(
        raw,
        biases=_biases(raw),
        embedding_scale=config_number(raw, "embedding_multiplier", 1.0),
        attention_scale=config_number(raw, "attention_multiplier", 1.0),
        residual_scale=config_number(raw, "residual_multiplier", 1.0),
        logits_scale=1.0 / config_number(raw, "logits_scaling", 1.0),
    )


def _parse_phi3(raw: Mapping[str, Any]) -> DecoderArchitecture:
    raw = _with_defaults(raw, {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5})
    return _parse(raw, rotary=Rotary.parse(raw, is_partial=True), **_windows(raw, lambda _: True))


def _family(
    name: str,
    parse: Callable[[Mapping[str, Any]], DecoderArchitecture],
    layer_names: Mapping[str, str] = _LAYER_NAMES,
    fused: Mapping[str, tuple[str, ...]] | None = None,
) -> DecoderFamily:
    return DecoderFamily(
        name=name,
        prefix="model.",
        layer="layers.{}.",
        layer_names=layer_names,
        other_names=_OTHER_NAMES,
        parse=parse,
        fused=fused or {},
    )


LLAMA = _family("llama", _parse_llama)
MISTRAL = _family("mistral", _parse_mistral)
QWEN2 = _family("qwen2", _parse_qwen2)
QWEN3 = _family("qwen3", _parse_qwen3)
GEMMA3 = _family(
    "gemma3_text",
    _parse_gemma3,
    {
        **_LAYER_NAMES,
        "attention_block_norm": "post_attention_layernorm",
        "mlp_norm": "pre_feedforward_layernorm",
        "mlp_block_norm": "post_feedforward_layernorm",
    },
)
SMOLLM3 = _family("smollm3", _parse_smollm3)
GRANITE = _family("granite", _parse_granite)
PHI3 = _family(
    "phi3",
    _parse_phi3,
    {
        name: theirs
        for name, theirs in _LAYER_NAMES.items()
        if name in ("attention_norm", "output", "mlp_norm", "down")
    },
    _FUSED,
)
