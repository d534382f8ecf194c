"""The PET that fine-tuning trains, as parameters that act on the frozen projections of a decoder."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.lora import DecoderLora, largest_rank
from inference.decoder.lora_layout import is_adapter, map_shape
from inference.errors import HplmError
from versiontree.job_settings import LORA_PROJECTIONS


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Which projections of which layers LoRA changes, and how; and the adapters of these layers.

    rank: 0: no LoRA. projections: a key of `LORA_PROJECTIONS`. LoRA's updates are scaled by alpha / rank.
    dropout: of the inputs, while training. adapter, output_adapter: the widths of the adapters behind the
    attention and behind the feed-forward block; 0: none.
    """

    rank: int
    alpha: float
    layers: range
    projections: str = "all"
    dropout: float = 0.0
    adapter: int = 0
    output_adapter: int = 0


class LoraParameters(nn.Module):
    """Factors A [in, rank] and B [rank, out] in float32, by layer and projection or adapter."""

    def __init__(
        self,
        factors: Mapping[tuple[int, str], tuple[Tensor, Tensor]],
        *,
        scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self._scale, self._dropout = scale, dropout
        self._keys = tuple(sorted(factors))
        self.a = nn.ParameterDict({_name(*key): _copy(factors[key][0]) for key in self._keys})
        self.b = nn.ParameterDict({_name(*key): _copy(factors[key][1]) for key in self._keys})

    @classmethod
    def initial(
        cls, architecture: DecoderArchitecture, spec: LoraSpec, generator: torch.Generator
    ) -> "LoraParameters":
        """A drawn uniformly, B zero (Hu et al. 2021, section 4.1; as PEFT draws A).

        Raises HplmError(invalid_field) for a spec that does not fit the decoder.
        """
        ranks = _checked_ranks(architecture, spec)
        factors = {}
        for layer in spec.layers:
            for name, rank in ranks.items():
                inputs, outputs = map_shape(architecture, name)
                drawn = torch.rand(inputs, rank, generator=generator)
                factors[layer, name] = (2 * drawn - 1) / math.sqrt(inputs), torch.zeros(rank, outputs)
        return cls(factors, scale=spec.alpha / spec.rank if spec.rank else 1.0, dropout=spec.dropout)

    def forward(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        """See `ProjectionDeltas`: all tokens have this PET."""
        name = _name(layer, projection)
        if name not in self.a:
            return outputs
        a, b = self.a[name].to(inputs.dtype), self.b[name].to(inputs.dtype)
        dropped = functional.dropout(inputs, self._dropout, self.training)
        narrow = dropped @ a
        if is_adapter(projection):
            narrow = narrow.relu()
        update: Tensor = narrow @ (self._scale_of(projection) * b)
        return outputs + update

    def _scale_of(self, name: str) -> float:
        """Adapters are not scaled."""
        return 1.0 if is_adapter(name) else self._scale

    def trained(self, architecture: DecoderArchitecture) -> DecoderLora:
        """The PET as it is stored: float16 on the CPU, the scale in B."""
        factors = {
            key: (
                self.a[_name(*key)].detach().to("cpu", torch.float16),
                (self._scale_of(key[1]) * self.b[_name(*key)].detach()).to("cpu", torch.float16),
            )
            for key in self._keys
        }
        return DecoderLora.of(factors, architecture, "training_diverged")

    @torch.no_grad()
    def warm_start(self, earlier: DecoderLora) -> bool:
        """Copy the factors of an earlier version if they have the same shapes; return whether they do."""
        theirs = earlier.tensors
        if {key: a.shape for key, (a, _) in theirs.items()} != {
            key: self.a[_name(*key)].shape for key in self._keys
        }:
            return False
        for key in self._keys:
            a, b = theirs[key]
            self.a[_name(*key)].copy_(a)
            self.b[_name(*key)].copy_(b.float() / self._scale_of(key[1]))
        return True


def _checked_ranks(architecture: DecoderArchitecture, spec: LoraSpec) -> dict[str, int]:
    """The ranks to train by projection, and the widths by adapter."""
    chosen = LORA_PROJECTIONS[spec.projections]
    projections = [name for name in architecture.projections if name in chosen]
    adapters = {"adapter": spec.adapter, "output_adapter": spec.output_adapter}
    for name, size in {"lora": spec.rank, **adapters}.items():
        if not 0 <= size <= largest_rank(name):
            raise HplmError("invalid_field", f"{name}: {size}; it is 0 to {largest_rank(name)}")
    ranks = dict.fromkeys(projections, spec.rank) | adapters
    if not any(ranks.values()):
        raise HplmError("invalid_field", "lora: without LoRA and adapters nothing learns")
    if not (spec.layers and spec.layers[0] >= 0 and spec.layers[-1] < architecture.layers):
        raise HplmError(
            "invalid_field", f"lower_layers: at least one of the {architecture.layers} layers must learn"
        )
    return {name: rank for name, rank in ranks.items() if rank}


def _name(layer: int, projection: str) -> str:
    return f"{layer}_{projection}"


def _copy(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value.detach().clone().float())
