"""Families with rotary positions: ModernBERT (Ettin, mmBERT), Nomic-BERT and GTE."""

from collections.abc import Mapping
from typing import Any, Final

from inference.hplm.architecture import Architecture
from inference.hplm.bert_families import ROBERTA_HEAD_NAMES, bert_sizes
from inference.hplm.checkpoint_config import (
    config_bool,
    config_int,
    config_layers,
    config_number,
    require,
    rotary_base,
    unsupported,
)
from inference.hplm.family import Family

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_ATTENTION: Final = ("query", "key", "value", "output")


def _parse_modernbert(raw: Mapping[str, Any]) -> Architecture:
    layers, hidden = config_layers(raw), config_int(raw, "hidden_size")
    activation = str(raw.get("hidden_activation", "gelu"))
    require(raw, "classifier_activation", activation)
    every = config_int(raw, "global_attn_every_n_layers", 3)
    if every < 1:
        raise unsupported(f"global_attn_every_n_layers is {every}; it must be positive")
    kinds = raw.get("layer_types") or [_LOCAL if index % every else _GLOBAL for index in range(layers)]
    if not isinstance(kinds, list) or not set(kinds) <= {_GLOBAL, _LOCAL}:
        raise unsupported(f"layer_types must be {_GLOBAL} or {_LOCAL}")
    window = config_int(raw, "local_attention", 128) // 2
    if window < 1:
        raise unsupported("local_attention must have a token on each side")
    base = rotary_base(raw, config_number(raw, "global_rope_theta", 160_000.0), of_layers=_GLOBAL)
    older = base if raw.get("local_rope_theta", 0) is None else 10_000.0
    known = {name: value for name, value in raw.items() if value is not None}
    local = rotary_base(raw, config_number(known, "local_rope_theta", older), of_layers=_LOCAL)
    return Architecture(
        family="modernbert",
        vocab=config_int(raw, "vocab_size"),
        hidden=hidden,
        inner=config_int(raw, "intermediate_size"),
        layers=layers,
        heads=config_int(raw, "num_attention_heads"),
        positions=config_int(raw, "max_position_embeddings", 8192),
        activation=activation,
        eps=config_number(raw, "norm_eps", 1e-5),
        embedding=hidden,
        position_embeddings=False,
        pre_norm=True,
        gated=True,
        rotary=tuple(local if kind == _LOCAL else base for kind in kinds),
        windows=tuple(window if kind == _LOCAL else 0 for kind in kinds),
    )


def _modernbert_biasless(raw: Mapping[str, Any]) -> tuple[str, ...]:
    parts = {
        "attention_bias": _ATTENTION,
        "mlp_bias": ("expand", "gate", "contract"),
        "norm_bias": ("attention_norm", "output_norm", "embeddings.norm", "final_norm", "head.norm"),
        "classifier_bias": ("head.dense",),
    }
    return tuple(
        name for flag, names in parts.items() if not config_bool(raw, flag, default=False) for name in names
    )


MODERNBERT: Final = Family(
    name="modernbert",
    prefix="model.",
    layer="layers.{}.",
    layer_names={
        "output": "attn.Wo",
        "attention_norm": "attn_norm",
        "contract": "mlp.Wo",
        "output_norm": "mlp_norm",
    },
    fused={"attn.Wqkv": ("query", "key", "value"), "mlp.Wi": ("expand", "gate")},
    embedding_names={
        "words.weight": "embeddings.tok_embeddings.weight",
        "norm.weight": "embeddings.norm.weight",
        "norm.bias": "embeddings.norm.bias",
    },
    other_names={"final_norm.weight": "final_norm.weight", "final_norm.bias": "final_norm.bias"},
    head_names={
        "dense.weight": "head.dense.weight",
        "dense.bias": "head.dense.bias",
        "norm.weight": "head.norm.weight",
        "norm.bias": "head.norm.bias",
        "bias": "decoder.bias",
    },
    parse=_parse_modernbert,
    biasless=_modernbert_biasless,
)


def _parse_nomic(raw: Mapping[str, Any]) -> Architecture:
    raw = _nomic_fields(raw)
    sizes = bert_sizes({"max_position_embeddings": 2048, "hidden_act": "silu", **raw})
    return Architecture(
        family="nomic_bert",
        types=config_int(raw, "type_vocab_size", 2),
        position_embeddings=False,
        gated=True,
        rotary=(rotary_base(raw, 1000.0),) * sizes["layers"],
        **sizes,
    )


_NOMIC_FIELDS: Final = {
    "n_embd": "hidden_size",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "rotary_emb_base": "rope_theta",
}
_NOMIC_ACTIVATIONS: Final = {"swiglu": "silu", "geglu": "gelu"}
_NOMIC_FLAGS: Final[Mapping[str, Any]] = {
    "prenorm": False,
    "use_rms_norm": False,
    "parallel_block": False,
    "causal": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "moe_every_n_layers": 0,
}


def _nomic_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json with BERT's names of fields, of one that was published with code of its own."""
    if "n_embd" not in raw:
        return dict(raw)
    for name, wanted in _NOMIC_FLAGS.items():
        require(raw, name, wanted)
    given = str(raw.get("activation_function", "swiglu"))
    if given not in _NOMIC_ACTIVATIONS:
        raise unsupported(
            f"activation_function {given!r} is not supported: its feed-forward block is not gated"
        )
    found = {_NOMIC_FIELDS.get(name, name): value for name, value in raw.items()}
    found["hidden_act"] = _NOMIC_ACTIVATIONS[given]
    if raw.get("rotary_scaling_factor") is not None:  # It changes texts longer than those of the pretraining.
        trained = config_int(raw, "max_trained_positions", 2048)
        found["max_position_embeddings"] = min(config_int(found, "max_position_embeddings"), trained)
    return found


NOMIC_BERT: Final = Family(
    name="nomic_bert",
    prefix="nomic_bert.",
    layer="encoder.layers.{}.",
    layer_names={
        "output": "attn.out_proj",
        "attention_norm": "norm1",
        "expand": "mlp.fc12",
        "gate": "mlp.fc11",
        "contract": "mlp.fc2",
        "output_norm": "norm2",
    },
    fused={"attn.Wqkv": ("query", "key", "value")},
    embedding_names={
        "words.weight": "embeddings.word_embeddings.weight",
        "types.weight": "embeddings.token_type_embeddings.weight",
        "norm.weight": "emb_ln.weight",
        "norm.bias": "emb_ln.bias",
    },
    head_names={
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "norm.weight": "cls.predictions.transform.layer_norm.weight",
        "norm.bias": "cls.predictions.transform.layer_norm.bias",
        "bias": "cls.predictions.bias",
    },
    parse=_parse_nomic,
    biasless=lambda _: (*_ATTENTION, "expand", "gate", "contract"),
)


def _parse_gte(raw: Mapping[str, Any]) -> Architecture:
    sizes = bert_sizes({"max_position_embeddings": 8192, **raw})
    return Architecture(
        family="gte",
        types=config_int(raw, "type_vocab_size", 1),
        position_embeddings=False,
        gated=True,
        rotary=(rotary_base(raw, 160_000.0),) * sizes["layers"],
        **sizes,
    )


GTE: Final = Family(
    name="gte",
    prefix="gte.",
    layer="encoder.layer.{}.",
    layer_names={
        "output": "attention.o_proj",
        "attention_norm": "attn_ln",
        "contract": "mlp.down_proj",
        "output_norm": "mlp_ln",
    },
    fused={"attention.qkv_proj": ("query", "key", "value"), "mlp.up_gate_proj": ("gate", "expand")},
    embedding_names={
        "words.weight": "embeddings.word_embeddings.weight",
        "types.weight": "embeddings.token_type_embeddings.weight",
        "norm.weight": "embeddings.LayerNorm.weight",
        "norm.bias": "embeddings.LayerNorm.bias",
    },
    head_names={
        **ROBERTA_HEAD_NAMES,
        "norm.weight": "lm_head.norm.weight",
        "norm.bias": "lm_head.norm.bias",
        "bias": "lm_head.decoder.bias",
    },
    parse=_parse_gte,
    biasless=lambda _: ("expand", "gate"),
)
