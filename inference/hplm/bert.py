"""The BERT family: its configuration, its embeddings and its layers, taken apart.

The layers are the `transformers` ones, called directly; this module alone knows their inner names.
"""

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

from inference.hplm.errors import HplmError

FAMILY = "bert"
# Written by the library itself; of no meaning to a root, and the first may name a folder of the machine.
_UNSAVED_KEYS = ("_name_or_path", "transformers_version")


def parse_config(raw: Mapping[str, Any]) -> BertConfig:
    """A BERT configuration from a checkpoint's config.json, set to scaled-dot-product attention.

    Raises HplmError(unsupported_checkpoint) for another model type, a decoder, or numbers that make no model.
    """
    if raw.get("model_type") != FAMILY:
        raise HplmError(
            "unsupported_checkpoint", f"model type {raw.get('model_type')!r} is not supported; only 'bert' is"
        )
    try:
        config = BertConfig.from_dict({k: v for k, v in raw.items() if k not in _UNSAVED_KEYS})
    except Exception as error:  # the library's strict dataclasses raise types of their own
        raise HplmError(
            "unsupported_checkpoint", f"config.json is not a BERT configuration: {error}"
        ) from error
    _check_config(config, raw)
    config._attn_implementation = "sdpa"
    return config


def _check_config(config: BertConfig, raw: Mapping[str, Any]) -> None:
    sizes = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
    )
    for name in sizes:
        if getattr(config, name) < 1:
            raise HplmError("unsupported_checkpoint", f"config.json: {name} must be positive")
    if config.hidden_size % config.num_attention_heads:
        raise HplmError(
            "unsupported_checkpoint", "config.json: hidden_size is no multiple of num_attention_heads"
        )
    if config.is_decoder or config.add_cross_attention:
        raise HplmError("unsupported_checkpoint", "config.json: a BERT decoder is not supported")
    if raw.get("position_embedding_type", "absolute") != "absolute":
        raise HplmError(
            "unsupported_checkpoint", "config.json: only absolute position embeddings are supported"
        )


def config_json(config: BertConfig) -> dict[str, Any]:
    """What of a configuration is stored with a root; `parse_config` reads it back."""
    return {key: value for key, value in config.to_dict().items() if key not in _UNSAVED_KEYS}


def build_embeddings(config: BertConfig) -> BertEmbeddings:
    """Embeddings with untrained weights."""
    return BertEmbeddings(config)  # type: ignore[no-untyped-call]


def build_layers(config: BertConfig, count: int) -> nn.ModuleList:
    """`count` transformer layers with untrained weights."""
    return nn.ModuleList(
        BertLayer(config, layer_idx=index)  # type: ignore[no-untyped-call]
        for index in range(count)
    )


def attention_mask(mask: Tensor) -> Tensor:
    """The mask [B, 1, 1, T] that attention broadcasts, from `mask` [B, T] bool (true: a token is there)."""
    return mask[:, None, None, :]


def attention_block(layer: nn.Module, hidden: Tensor, mask: Tensor) -> Tensor:
    """Self-attention, skip connection and normalisation of one layer: [B, T, d] to [B, T, d]."""
    output: Tensor = cast("BertLayer", layer).attention(hidden, mask)[0]
    return output


def feed_forward_block(layer: nn.Module, hidden: Tensor) -> Tensor:
    """Feed-forward, skip connection and normalisation of one layer: [B, T, d] to [B, T, d]."""
    output: Tensor = cast("BertLayer", layer).feed_forward_chunk(hidden)  # type: ignore[no-untyped-call]
    return output


def load_weights(
    module: nn.Module, weights: Mapping[str, Tensor], source: str, code: str = "corrupt_artifact"
) -> None:
    """Fill `module` with `weights`, every name and shape matching.

    Raises HplmError with `code`, naming `source` and what does not fit.
    """
    try:
        module.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:3]]
        raise HplmError(code, f"{source}: weights do not fit: {' '.join(lines)[:500]}") from error


def freeze(module: nn.Module) -> None:
    """No gradients, no dropout."""
    module.requires_grad_(False)
    module.eval()


def select(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The weights whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
