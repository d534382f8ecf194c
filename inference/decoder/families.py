"""Supported families of decoders: LLaMA, Qwen2, Qwen3, GPT-2, OPT."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.rotary import Rotary
from inference.errors import HplmError
from inference.hplm.families import config_int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFamily:
    """A family of checkpoints: how its tensors are named and stored, and how its config.json is read.

    prefix: of the tensors of a checkpoint with a head. layer: prefix of a layer, with `{}` for its index.
    layer_names, other_names: from our names to the checkpoint's. fused: modules of the checkpoint that hold
    several of ours, one after another. transposed: whether projections are stored as [in, out]. parse: the
    architecture of a config.json.
    """

    name: str
    prefix: str
    layer: str
    layer_names: Mapping[str, str]
    other_names: Mapping[str, str]
    parse: Callable[[Mapping[str, Any]], DecoderArchitecture]
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    transposed: bool = False

    def canonical(
        self, weights: Mapping[str, Tensor], architecture: DecoderArchitecture
    ) -> dict[str, Tensor]:
        """The weights of the decoder by our names, as views of the checkpoint's. Others are left out, and so
        is the head if it is tied to the embedding."""
        others = {theirs: ours for ours, theirs in self.other_names.items()}
        in_layer = {theirs: (ours,) for ours, theirs in self.layer_names.items()} | dict(self.fused)
        pattern = re.compile(re.escape(self.layer).replace(r"\{\}", r"(\d+)") + r"(.+)\.(weight|bias)")
        found: dict[str, Tensor] = {}
        for name, value in weights.items():
            stripped = name.removeprefix(self.prefix)
            match = pattern.fullmatch(stripped)
            if stripped in others:
                found[others[stripped]] = value
            elif match and match[2] in in_layer:
                parts = self._split(in_layer[match[2]], value, architecture, name)
                found |= {f"layers.{match[1]}.{ours}.{match[3]}": part for ours, part in parts.items()}
        if architecture.tied:
            found.pop("head.weight", None)
        return found

    def _split(
        self, names: tuple[str, ...], value: Tensor, architecture: DecoderArchitecture, source: str
    ) -> dict[str, Tensor]:
        """The parts of a stored tensor by their names, each [out, in] or [out]."""
        if self.transposed and value.dim() == 2:
            value = value.t()
        if len(names) == 1:
            return {names[0]: value}
        sizes = [architecture.projection_shape(name)[1] for name in names]
        if value.dim() == 0 or len(value) != sum(sizes):
            raise HplmError(
                "unsupported_checkpoint",
                f"{source} has the shape {list(value.shape)}, not {sum(sizes)} outputs",
            )
        return dict(zip(names, torch.split(value, sizes), strict=True))


def config_flag(raw: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A truth value of a config.json. Raises HplmError(unsupported_checkpoint) for another value."""
    value = raw.get(name, default)
    if not isinstance(value, bool):
        raise HplmError("unsupported_checkpoint", f"config.json: {name} is {value!r}, not true or false")
    return value


def config_float(raw: Mapping[str, Any], name: str, default: float) -> float:
    """A positive number of a config.json. Raises HplmError(unsupported_checkpoint) for another value."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise HplmError("unsupported_checkpoint", f"config.json: {name} is {value!r}, not a positive number")
    return float(value)


def _head_size(hidden: int, heads: int) -> int:
    if heads < 1 or hidden % heads:
        raise HplmError(
            "unsupported_checkpoint",
            f"config.json: the hidden size {hidden} is not divisible by the {heads} heads",
        )
    return hidden // heads


def _require(raw: Mapping[str, Any], name: str, wanted: bool, reason: str) -> None:
    """Raise HplmError(unsupported_checkpoint) unless the field is `wanted`, which is also its default."""
    if config_flag(raw, name, default=wanted) != wanted:
        raise HplmError("unsupported_checkpoint", f"config.json: {name}: {reason} is not supported")


_ATTENTION = ("query", "key", "value", "output")
_LLAMA_LAYER_NAMES: Final = {
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
_LLAMA_OTHER_NAMES: Final = {
    "embed.weight": "embed_tokens.weight",
    "norm.weight": "norm.weight",
    "head.weight": "lm_head.weight",
}


def _parse_llama_like(
    raw: Mapping[str, Any],
    biases: tuple[str, ...],
    *,
    default_head_size: int | None = None,
    query_key_norm: bool = False,
) -> DecoderArchitecture:
    """The architecture of a config.json with LLaMA's fields."""
    _refuse_sliding_windows(raw)
    hidden, heads = config_int(raw, "hidden_size"), config_int(raw, "num_attention_heads")
    head_size = raw.get("head_dim") or default_head_size
    kv_heads = raw.get("num_key_value_heads")
    return DecoderArchitecture(
        family=str(raw["model_type"]),
        vocab=config_int(raw, "vocab_size"),
        hidden=hidden,
        inner=config_int(raw, "intermediate_size"),
        layers=config_int(raw, "num_hidden_layers"),
        heads=heads,
        kv_heads=heads if kv_heads is None else config_int(raw, "num_key_value_heads"),
        head_size=_head_size(hidden, heads)
        if head_size is None
        else config_int({"head_dim": head_size}, "head_dim"),
        positions=config_int(raw, "max_position_embeddings", 2048),
        activation=str(raw.get("hidden_act", "silu")),
        eps=config_float(raw, "rms_norm_eps", 1e-6),
        norm="rms",
        gated=True,
        tied=config_flag(raw, "tie_word_embeddings", default=False),
        biases=biases,
        rotary=Rotary.parse(raw),
        query_key_norm=query_key_norm,
    )


def _refuse_sliding_windows(raw: Mapping[str, Any]) -> None:
    """Raise HplmError(unsupported_checkpoint) if any layer sees only the last tokens."""
    kinds = raw.get("layer_types")
    if kinds is None:
        windows = raw.get("use_sliding_window") and raw.get("sliding_window") is not None
    else:
        windows = not isinstance(kinds, list) or set(kinds) - {"full_attention"}
    if windows:
        raise HplmError("unsupported_checkpoint", "config.json: sliding window attention is not supported")


def _attention_biases(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return _ATTENTION if config_flag(raw, "attention_bias", default=False) else ()


def _parse_llama(raw: Mapping[str, Any]) -> DecoderArchitecture:
    mlp = ("gate", "up", "down") if config_flag(raw, "mlp_bias", default=False) else ()
    return _parse_llama_like(raw, _attention_biases(raw) + mlp)


def _parse_qwen2(raw: Mapping[str, Any]) -> DecoderArchitecture:
    return _parse_llama_like(raw, ("query", "key", "value"))


def _parse_qwen3(raw: Mapping[str, Any]) -> DecoderArchitecture:
    return _parse_llama_like(raw, _attention_biases(raw), default_head_size=128, query_key_norm=True)


def _llama_like(name: str, parse: Callable[[Mapping[str, Any]], DecoderArchitecture]) -> DecoderFamily:
    return DecoderFamily(
        name=name,
        prefix="model.",
        layer="layers.{}.",
        layer_names=_LLAMA_LAYER_NAMES,
        other_names=_LLAMA_OTHER_NAMES,
        parse=parse,
    )


LLAMA = _llama_like("llama", _parse_llama)
QWEN2 = _llama_like("qwen2", _parse_qwen2)
QWEN3 = _llama_like("qwen3", _parse_qwen3)


def _parse_gpt2(raw: Mapping[str, Any]) -> DecoderArchitecture:
    _require(raw, "scale_attn_weights", True, "attention without scaling")
    _require(raw, "scale_attn_by_inverse_layer_idx", False, "attention scaled by layer")
    _require(raw, "add_cross_attention", False, "cross-attention")
    hidden, heads = config_int(raw, "n_embd", 768), config_int(raw, "n_head", 12)
    inner = raw.get("n_inner")
    return DecoderArchitecture(
        family="gpt2",
        vocab=config_int(raw, "vocab_size", 50257),
        hidden=hidden,
        inner=4 * hidden if inner is None else config_int(raw, "n_inner"),
        layers=config_int(raw, "n_layer", 12),
        heads=heads,
        kv_heads=heads,
        head_size=_head_size(hidden, heads),
        positions=config_int(raw, "n_positions", 1024),
        activation=str(raw.get("activation_function", "gelu_new")),
        eps=config_float(raw, "layer_norm_epsilon", 1e-5),
        norm="layer",
        gated=False,
        tied=config_flag(raw, "tie_word_embeddings", default=True),
        biases=(*_ATTENTION, "up", "down"),
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
    transposed=True,
)


def _parse_opt(raw: Mapping[str, Any]) -> DecoderArchitecture:
    _require(raw, "do_layer_norm_before", True, "layer norm after the blocks")
    _require(raw, "_remove_final_layer_norm", False, "a decoder without a final layer norm")
    _require(raw, "layer_norm_elementwise_affine", True, "layer norm without weights")
    hidden, heads = config_int(raw, "hidden_size", 768), config_int(raw, "num_attention_heads", 12)
    embedding = raw.get("word_embed_proj_dim")
    if embedding is not None and embedding != hidden:
        raise HplmError(
            "unsupported_checkpoint",
            f"config.json: embeddings of {embedding} numbers, projected to {hidden}, are not supported",
        )
    return DecoderArchitecture(
        family="opt",
        vocab=config_int(raw, "vocab_size", 50272),
        hidden=hidden,
        inner=config_int(raw, "ffn_dim", 3072),
        layers=config_int(raw, "num_hidden_layers", 12),
        heads=heads,
        kv_heads=heads,
        head_size=_head_size(hidden, heads),
        positions=config_int(raw, "max_position_embeddings", 2048),
        activation=str(raw.get("activation_function", "relu")),
        eps=1e-5,
        norm="layer",
        gated=False,
        tied=config_flag(raw, "tie_word_embeddings", default=True),
        biases=(*_ATTENTION, "up", "down") if config_flag(raw, "enable_bias", default=True) else (),
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


DECODER_FAMILIES: Final = {family.name: family for family in (LLAMA, QWEN2, QWEN3, GPT2, OPT)}


def decoder_family_for(raw: Mapping[str, Any]) -> DecoderFamily:
    """The family of a config.json. Raises HplmError(unsupported_checkpoint) for other families."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind in DECODER_FAMILIES:
        return DECODER_FAMILIES[kind]
    raise HplmError(
        "unsupported_checkpoint",
        f"model type {kind!r} is not supported as a decoder; {', '.join(DECODER_FAMILIES)} are",
    )
