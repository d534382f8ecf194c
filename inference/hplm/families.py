"""Supported model families: BERT, RoBERTa, XLM-R, DistilBERT, ELECTRA."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.text.special_tokens import SPECIAL_TOKENS, SpecialTokens


@dataclass(frozen=True, slots=True)
class Family:
    """A family of checkpoints: how its tensors are named, and how its config.json is read.

    prefix: of the encoder in task models. layer: prefix of a layer, with `{}` for its index. layer_names,
    embedding_names, head_names: from our names to the checkpoint's. parse: the architecture of a config.json.
    pooler: the name of the pooler, "" if the family has none.
    """

    name: str
    prefix: str
    layer: str
    layer_names: Mapping[str, str]
    embedding_names: Mapping[str, str]
    head_names: Mapping[str, str]
    parse: Callable[[Mapping[str, Any]], Architecture]
    pooler: str = ""

    @property
    def specials(self) -> SpecialTokens:
        """The special tokens of its tokenizers."""
        return SPECIAL_TOKENS[self.name]

    def canonical(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights that a root uses, renamed to `embeddings.…`, `layers.<i>.…`, `head.…`, `pooler.…`."""
        ours = {theirs: f"embeddings.{name}" for name, theirs in self.embedding_names.items()}
        ours |= {theirs: f"head.{name}" for name, theirs in self.head_names.items()}
        if self.pooler:
            ours |= {f"{self.pooler}.{part}": f"pooler.{part}" for part in ("weight", "bias")}
        in_layer = {theirs: name for name, theirs in self.layer_names.items()}
        pattern = re.compile(re.escape(self.layer).replace(r"\{\}", r"(\d+)") + r"(.+)\.(weight|bias)")
        found: dict[str, Tensor] = {}
        for name, value in weights.items():
            stripped = _modern_name(name.removeprefix(self.prefix))
            match = pattern.fullmatch(stripped)
            if stripped in ours:
                found[ours[stripped]] = value
            elif match and match[2] in in_layer:
                found[f"layers.{match[1]}.{in_layer[match[2]]}.{match[3]}"] = value
        return found


def _modern_name(name: str) -> str:
    """Replace the names gamma and beta that old checkpoints have for layer norm weight and bias."""
    return re.sub(
        r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    )


def config_int(raw: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """An integer of a config.json. Raises HplmError(unsupported_checkpoint) for another value."""
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HplmError("unsupported_checkpoint", f"config.json: {name} is {value!r}, not a whole number")
    return value


def parse_bert_like(raw: Mapping[str, Any], family: str, *, position_offset: int = 0) -> Architecture:
    """The architecture of a config.json with BERT's fields. Raises HplmError(unsupported_checkpoint) for
    decoders and relative positions."""
    if raw.get("is_decoder") or raw.get("add_cross_attention"):
        raise HplmError("unsupported_checkpoint", "config.json: a decoder is not supported")
    kind = raw.get("position_embedding_type") or "absolute"
    if kind != "absolute":
        raise HplmError(
            "unsupported_checkpoint",
            f"config.json: {kind} positions are not supported, only absolute ones",
        )
    hidden = config_int(raw, "hidden_size")
    return Architecture(
        family=family,
        vocab=config_int(raw, "vocab_size"),
        hidden=hidden,
        inner=config_int(raw, "intermediate_size"),
        layers=config_int(raw, "num_hidden_layers"),
        heads=config_int(raw, "num_attention_heads"),
        positions=config_int(raw, "max_position_embeddings", 512),
        activation=str(raw.get("hidden_act", "gelu")),
        eps=float(raw.get("layer_norm_eps", 1e-12)),
        embedding=config_int(raw, "embedding_size", hidden),
        position_offset=position_offset,
        types=config_int(raw, "type_vocab_size", 2),
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


BERT = Family(
    name="bert",
    prefix="bert.",
    layer="encoder.layer.{}.",
    layer_names=BERT_LAYER_NAMES,
    embedding_names=BERT_EMBEDDING_NAMES,
    head_names={
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "norm.weight": "cls.predictions.transform.LayerNorm.weight",
        "norm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    },
    parse=lambda raw: parse_bert_like(raw, "bert"),
    pooler="pooler.dense",
)


ROBERTA_HEAD_NAMES = {
    "dense.weight": "lm_head.dense.weight",
    "dense.bias": "lm_head.dense.bias",
    "norm.weight": "lm_head.layer_norm.weight",
    "norm.bias": "lm_head.layer_norm.bias",
    "bias": "lm_head.bias",
}


def _parse_roberta(raw: Mapping[str, Any]) -> Architecture:
    return parse_bert_like(
        raw, str(raw["model_type"]), position_offset=config_int(raw, "pad_token_id", 1) + 1
    )


def _roberta_family(name: str) -> Family:
    return Family(
        name=name,
        prefix="roberta.",
        layer="encoder.layer.{}.",
        layer_names=BERT_LAYER_NAMES,
        embedding_names=BERT_EMBEDDING_NAMES,
        head_names=ROBERTA_HEAD_NAMES,
        parse=_parse_roberta,
    )


ROBERTA, XLM_ROBERTA = _roberta_family("roberta"), _roberta_family("xlm-roberta")


def _parse_distilbert(raw: Mapping[str, Any]) -> Architecture:
    hidden = config_int(raw, "dim")
    return Architecture(
        family="distilbert",
        vocab=config_int(raw, "vocab_size"),
        hidden=hidden,
        inner=config_int(raw, "hidden_dim"),
        layers=config_int(raw, "n_layers"),
        heads=config_int(raw, "n_heads"),
        positions=config_int(raw, "max_position_embeddings", 512),
        activation=str(raw.get("activation", "gelu")),
        eps=1e-12,
        embedding=hidden,
    )


DISTILBERT = Family(
    name="distilbert",
    prefix="distilbert.",
    layer="transformer.layer.{}.",
    layer_names={
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "output": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "expand": "ffn.lin1",
        "contract": "ffn.lin2",
        "output_norm": "output_layer_norm",
    },
    embedding_names={name: theirs for name, theirs in BERT_EMBEDDING_NAMES.items() if name != "types.weight"},
    head_names={
        "dense.weight": "vocab_transform.weight",
        "dense.bias": "vocab_transform.bias",
        "norm.weight": "vocab_layer_norm.weight",
        "norm.bias": "vocab_layer_norm.bias",
        "bias": "vocab_projector.bias",
    },
    parse=_parse_distilbert,
)


ELECTRA = Family(
    name="electra",
    prefix="electra.",
    layer="encoder.layer.{}.",
    layer_names=BERT_LAYER_NAMES,
    embedding_names={
        **BERT_EMBEDDING_NAMES,
        "project.weight": "embeddings_project.weight",
        "project.bias": "embeddings_project.bias",
    },
    # A discriminator has no language model head; one is fitted when needed.
    head_names={},
    parse=lambda raw: parse_bert_like(raw, "electra"),
)


FAMILIES: Final = {family.name: family for family in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, ELECTRA)}
UNSUPPORTED_REASONS: Final = {
    "deberta": "its disentangled attention uses relative positions in each layer",
}
UNSUPPORTED_ALIASES: Final = {"deberta-v2": "deberta"}


def family_for(raw: Mapping[str, Any]) -> Family:
    """The family of a config.json. Raises HplmError(unsupported_checkpoint) for other families."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES[kind]
    reason = UNSUPPORTED_REASONS.get(UNSUPPORTED_ALIASES.get(str(kind), str(kind)))
    raise HplmError(
        "unsupported_checkpoint",
        f"model type {kind!r} is not supported: {reason}"
        if reason
        else f"model type {kind!r} is not supported; {', '.join(FAMILIES)} are",
    )
