"""Embeddings of texts as sentence-transformers makes them: pooling, dense layers and norms."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.artifact_files import read_weights, to_float32, write_weights
from inference.hplm.heads import mean_state
from inference.text.sentence_config import NORMALIZE, Activation, PoolingMode, SentenceConfig

DENSE_FILE: Final = "sentence.safetensors"
"""The dense layers of a root."""
MAX_WIDTH: Final = 16_384
ACTIVATIONS: Final[Mapping[Activation, Callable[[Tensor], Tensor]]] = {
    "identity": lambda value: value,
    "tanh": torch.tanh,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
}


@dataclass(frozen=True, slots=True)
class Dense:
    """weight [w_out, w_in] and bias [w_out], float32."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class SentenceModules:
    """What makes embeddings of the final states, whose size is `hidden`. dense: the dense layers of the
    config, in order. Raises HplmError(corrupt_artifact) if their widths do not follow from each other."""

    config: SentenceConfig
    hidden: int
    dense: tuple[Dense, ...] = ()

    def __post_init__(self) -> None:
        width = len(self.config.pooling) * self.hidden
        for number, layer in enumerate(self.dense, start=1):
            out = layer.bias.shape[0] if layer.bias.dim() == 1 else 0
            if not 0 < out <= MAX_WIDTH or tuple(layer.weight.shape) != (out, width):
                shapes = f"{tuple(layer.weight.shape)} and {tuple(layer.bias.shape)}"
                raise HplmError(
                    "corrupt_artifact",
                    f"dense layer {number} of embeddings: shapes {shapes} are not [w, {width}] and [w], with "
                    f"w from 1 to {MAX_WIDTH:,}",
                )
            width = out

    @property
    def width(self) -> int:
        """Numbers of an embedding."""
        return len(self.dense[-1].bias) if self.dense else len(self.config.pooling) * self.hidden

    def embed(self, states: Sequence[Tensor]) -> Tensor:
        """Embeddings [B, w] fp32 of the final states [T, d] of each text's tokens, on their device."""
        found = torch.stack([self._pooled(each) for each in states])
        layers = iter(self.dense)
        for module in self.config.modules:
            if module == NORMALIZE:
                found = functional.normalize(found, dim=-1)
            else:
                layer = next(layers)
                found = ACTIVATIONS[module](functional.linear(found, layer.weight, layer.bias))
        return found

    def _pooled(self, states: Tensor) -> Tensor:
        first, *others = (_pool(states, mode) for mode in self.config.pooling)
        return torch.cat([first, *others]) if others else first

    def to(self, device: torch.device | str) -> "SentenceModules":
        """On the device."""
        moved = (Dense(layer.weight.to(device), layer.bias.to(device)) for layer in self.dense)
        return dataclasses.replace(self, dense=tuple(moved))

    def save(self, folder: Path) -> None:
        """Write the dense layers, if there are any, into a root's folder."""
        if self.dense:
            weights = {f"{number}.weight": layer.weight for number, layer in enumerate(self.dense)}
            biases = {f"{number}.bias": layer.bias for number, layer in enumerate(self.dense)}
            write_weights(folder / DENSE_FILE, weights | biases)

    @classmethod
    def load(cls, folder: Path, config: SentenceConfig, hidden: int) -> "SentenceModules":
        """Read what `save` wrote. Raises HplmError(corrupt_artifact)."""
        count = sum(module != NORMALIZE for module in config.modules)
        found = to_float32(read_weights(folder / DENSE_FILE)) if count else {}
        try:
            dense = tuple(Dense(found[f"{at}.weight"], found[f"{at}.bias"]) for at in range(count))
        except KeyError as error:
            raise HplmError("corrupt_artifact", f"{DENSE_FILE}: {error} is missing") from error
        return cls(config, hidden, dense)


def _pool(states: Tensor, mode: PoolingMode) -> Tensor:
    """One vector [d] fp32 of a text's states [T, d], those of its special tokens among them."""
    match mode:
        case "cls":
            return states[0].float()
        case "lasttoken":
            return states[-1].float()
        case "max":
            return states.amax(0).float()
        case "mean":
            return mean_state(states)
        case "mean_sqrt_len_tokens":
            return mean_state(states) * math.sqrt(len(states))
    weights = torch.arange(1.0, len(states) + 1, device=states.device)
    return torch.mv(states.float().T, weights / weights.sum())
