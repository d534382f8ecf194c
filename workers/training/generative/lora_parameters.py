"""The LoRA that fine-tuning trains, as parameters that act on the frozen projections of a decoder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.lora import DecoderLora
from inference.errors import HplmError
from inference.hplm.hplm import MAX_RANK


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Which projections of which layers a LoRA changes, and how.

    projections: None: all. Updates are scaled by alpha / rank. dropout: of the inputs, while training.
    """

    rank: int
    alpha: float
    layers: range
    projections: Sequence[str] | None = None
    dropout: float = 0.0


class LoraParameters(nn.Module):
    """Factors A [in, rank] and B [rank, out] in float32, by layer and projection."""

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
        projections = _check(architecture, spec)
        factors = {}
        for layer in spec.layers:
            for projection in projections:
                inputs, outputs = architecture.projection_shape(projection)
                drawn = torch.rand(inputs, spec.rank, generator=generator)
                factors[layer, projection] = (
                    (2 * drawn - 1) / math.sqrt(inputs),
                    torch.zeros(spec.rank, outputs),
                )
        return cls(factors, scale=spec.alpha / spec.rank, dropout=spec.dropout)

    def forward(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        """See `ProjectionDeltas`: all tokens have this LoRA."""
        name = _name(layer, projection)
        if name not in self.a:
            return outputs
        a, b = self.a[name].to(inputs.dtype), self.b[name].to(inputs.dtype)
        dropped = functional.dropout(inputs, self._dropout, self.training)
        update: Tensor = (dropped @ a) @ (self._scale * b)
        return outputs + update

    def trained(self, architecture: DecoderArchitecture) -> DecoderLora:
        """The LoRA as it is stored: float16 on the CPU, the scale in B."""
        factors = {
            key: (
                self.a[_name(*key)].detach().to("cpu", torch.float16),
                (self._scale * self.b[_name(*key)].detach()).to("cpu", torch.float16),
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
            self.b[_name(*key)].copy_(b.float() / self._scale)
        return True


def _check(architecture: DecoderArchitecture, spec: LoraSpec) -> Sequence[str]:
    """The projections to train."""
    projections = architecture.projections if spec.projections is None else tuple(spec.projections)
    unknown = [name for name in projections if name not in architecture.projections]
    if unknown or not projections:
        raise HplmError(
            "invalid_field",
            f"projections: {', '.join(map(repr, unknown)) or 'none'}; those of this root are "
            f"{', '.join(architecture.projections)}",
        )
    if not 1 <= spec.rank <= MAX_RANK:
        raise HplmError("invalid_field", f"lora: a rank of {spec.rank}; ranks are 1 to {MAX_RANK}")
    if not (spec.layers and spec.layers[0] >= 0 and spec.layers[-1] < architecture.layers):
        raise HplmError(
            "invalid_field", f"lower_layers: at least one of the {architecture.layers} layers must learn"
        )
    return projections


def _name(layer: int, projection: str) -> str:
    return f"{layer}_{projection}"


def _copy(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value.detach().clone().float())
