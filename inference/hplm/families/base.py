"""What a family of models must say so that its checkpoints can be read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from inference.hplm.architecture import Architecture
from inference.hplm.errors import HplmError


@dataclass(frozen=True, slots=True)
class Specials:
    """The spelling of the special tokens, and how many separators part two texts."""

    pad: str
    cls: str
    sep: str
    mask: str
    unk: str
    separators: int = 1


BERT_SPECIALS = Specials("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of checkpoints.

    prefix: what a task model's checkpoint puts before the encoder's names. layer: the name of a layer's
    parts, with `{}` for its number. names: (ours, theirs) below a layer; embeddings, head: (ours, theirs) in
    full. parse: the architecture of a config.json. pooler: what task models read texts by, where a checkpoint
    carries that.
    """

    name: str
    prefix: str
    layer: str
    layer_names: Mapping[str, str]
    embedding_names: Mapping[str, str]
    head_names: Mapping[str, str]
    parse: Callable[[Mapping[str, Any]], Architecture]
    specials: Specials = field(default=BERT_SPECIALS)
    pooler: str = ""

    def canonical(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights that a root uses, by our names: `embeddings.…`, `layers.<i>.…`, `head.…`,
        `pooler.…`."""
        ours = {theirs: f"embeddings.{name}" for name, theirs in self.embedding_names.items()}
        ours |= {theirs: f"head.{name}" for name, theirs in self.head_names.items()}
        if self.pooler:
            ours |= {f"{self.pooler}.{part}": f"pooler.{part}" for part in ("weight", "bias")}
        in_layer = {theirs: name for name, theirs in self.layer_names.items()}
        pattern = re.compile(re.escape(self.layer).replace(r"\{\}", r"(\d+)") + r"(.+)\.(weight|bias)")
        found: dict[str, Tensor] = {}
        for name, value in weights.items():
            plain = _current_spelling(name.removeprefix(self.prefix))
            match = pattern.fullmatch(plain)
            if plain in ours:
                found[ours[plain]] = value
            elif match and match[2] in in_layer:
                found[f"layers.{match[1]}.{in_layer[match[2]]}.{match[3]}"] = value
        return found


def _current_spelling(name: str) -> str:
    """Very old checkpoints call a normalisation's weight gamma and its bias beta."""
    return re.sub(
        r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    )


def number(raw: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number of a config.json; HplmError(unsupported_checkpoint) when it is none."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HplmError("unsupported_checkpoint", f"config.json: {name} is {value!r}, not a whole number")
    return value


def bert_like(raw: Mapping[str, Any], family: str, *, position_offset: int = 0) -> Architecture:
    """The architecture of a config.json that uses BERT's words. HplmError(unsupported_checkpoint) for a
    decoder and for relative positions."""
    if raw.get("is_decoder") or raw.get("add_cross_attention"):
        raise HplmError("unsupported_checkpoint", "config.json: a decoder is not supported")
    kind = raw.get("position_embedding_type") or "absolute"
    if kind != "absolute":
        raise HplmError(
            "unsupported_checkpoint",
            f"config.json: {kind} positions mix into every layer; only absolute ones are supported",
        )
    hidden = number(raw, "hidden_size")
    return Architecture(
        family=family,
        vocab=number(raw, "vocab_size"),
        hidden=hidden,
        inner=number(raw, "intermediate_size"),
        layers=number(raw, "num_hidden_layers"),
        heads=number(raw, "num_attention_heads"),
        positions=number(raw, "max_position_embeddings", 512),
        activation=str(raw.get("hidden_act", "gelu")),
        eps=float(raw.get("layer_norm_eps", 1e-12)),
        embedding=number(raw, "embedding_size", hidden),
        position_offset=position_offset,
        types=number(raw, "type_vocab_size", 2),
    )


BERT_LAYER_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "output_norm": "output.LayerNorm",
}
BERT_EMBEDDING_NAMES = {
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "types.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}
