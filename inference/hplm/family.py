"""A family of checkpoints: how its tensors are named and stored, and how its config.json is read."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.text.special_tokens import SPECIAL_TOKENS, SpecialTokens

Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of checkpoints.

    prefix: of the encoder in task models. layer: prefix of a layer, with `{}` for its index. layer_names,
    embedding_names, other_names, head_names: from our names to the checkpoint's. fused: modules of a layer
    that hold several of ours, one after another. parse: the architecture of a config.json. biasless: our
    linear maps and norms that have no bias by config.json; they get one of zeros, as all maps have one.
    position_tables: adds the tables of relative positions of each layer to the tensors by our names.
    pooler: the name of the pooler, "" if the family has none. tokenizer_model: the file of a tokenizer of
    another format, if checkpoints may have that alone.
    """

    name: str
    prefix: str
    layer: str
    layer_names: Mapping[str, str]
    embedding_names: Mapping[str, str]
    parse: Callable[[Mapping[str, Any]], Architecture]
    head_names: Mapping[str, str] = field(default_factory=dict)
    other_names: Mapping[str, str] = field(default_factory=dict)
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    biasless: Callable[[Mapping[str, Any]], Collection[str]] = lambda _: ()
    position_tables: Callable[[Tensors, Architecture, Mapping[str, Any]], Tensors] = lambda found, *_: found
    pooler: str = ""
    tokenizer_model: str = ""

    @property
    def specials(self) -> SpecialTokens:
        """The special tokens of its usual tokenizers."""
        return SPECIAL_TOKENS[self.name]

    def canonical(
        self, weights: Mapping[str, Tensor], architecture: Architecture, raw: Mapping[str, Any]
    ) -> Tensors:
        """The weights that a root uses, renamed to `embeddings.…`, `layers.<i>.…`, `head.…`, `pooler.…`,
        `final_norm.…`. raw: the config.json. Raises HplmError(unsupported_checkpoint) for tensors of a layer
        that the architecture does not have."""
        ours = {theirs: f"embeddings.{name}" for name, theirs in self.embedding_names.items()}
        ours |= {theirs: f"head.{name}" for name, theirs in self.head_names.items()}
        ours |= {theirs: name for name, theirs in self.other_names.items()}
        if self.pooler:
            ours |= {f"{self.pooler}.{part}": f"pooler.{part}" for part in ("weight", "bias")}
        pattern = re.compile(re.escape(self.layer).replace(r"\{\}", r"(\d+)") + r"(.+)\.(weight|bias)")
        found: Tensors = {}
        for name, value in weights.items():
            stripped = _modern_name(name.removeprefix(self.prefix))
            match = pattern.fullmatch(stripped)
            if stripped in ours:
                found[ours[stripped]] = value
            elif match:
                if int(match[1]) >= architecture.layers:
                    raise unfit(f"{name} is of a layer that the {architecture.layers} of config.json lack")
                parts = self._parts(match[2], value, name)
                found |= {f"layers.{match[1]}.{ours}.{match[3]}": part for ours, part in parts.items()}
        found = self.position_tables(found, architecture, raw)
        return found | _zero_biases(found, self.biasless(raw))

    def _parts(self, module: str, value: Tensor, source: str) -> Tensors:
        """The tensors that a tensor of a layer's module holds, by our names."""
        names = self.fused.get(module) or tuple(
            our for our, their in self.layer_names.items() if their == module
        )
        if not names:
            raise unfit(f"{source} is no part of the layers of {self.name}")
        if value.dim() == 0 or len(value) % len(names):
            raise unfit(f"{source} has the shape {list(value.shape)}, which {', '.join(names)} cannot share")
        return dict(zip(names, value.chunk(len(names)), strict=True))


def _zero_biases(found: Tensors, biasless: Collection[str]) -> Tensors:
    """The biases that the modules of these names lack, in layers and outside."""
    return {
        f"{module}.bias": torch.zeros(value.shape[:1])
        for module, value in (
            (name.removesuffix(".weight"), value) for name, value in found.items() if name.endswith(".weight")
        )
        if re.sub(r"^layers\.\d+\.", "", module) in biasless
    }


def _modern_name(name: str) -> str:
    """Replace the names gamma and beta that old checkpoints have for layer norm weight and bias."""
    return re.sub(
        r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    )


def unfit(message: str) -> HplmError:
    """The error for tensors that do not fit their config.json."""
    return HplmError("unsupported_checkpoint", f"the checkpoint: {message}")
