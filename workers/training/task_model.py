"""The model that fine-tuning trains: a PET in the upper layers, and a head (paper section 3.2.2)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.encoder import UpperLayers
from inference.hplm.heads import POOLINGS, Head, pool
from inference.hplm.hplm import Hplm
from inference.hplm.pets.batch import SharedPets
from inference.hplm.pets.kinds import KINDS
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights

# The head's output at padding, so that a softmax over the tokens never chooses it.
PADDING_LOGIT = -1e4


class TaskModel(nn.Module):
    """A PET and a head as parameters, applied to shared upper layers.

    dropout: of the states at the cut and of the head's input, while training.
    """

    def __init__(self, pet: PetWeights, head: Head, *, dropout: float = 0.0) -> None:
        super().__init__()
        self._spec: PetSpec = pet.spec
        self._shape: UpperShape = pet.shape
        self._dropout = dropout
        self.pooling, self.activation = head.pooling, head.activation
        # Parameter names may not contain dots.
        self.pet = nn.ParameterDict({_parameter_name(k): _copy(v) for k, v in pet.weights.items()})
        self.head = nn.ParameterDict({name: _copy(value) for name, value in head.tensors().items()})

    def forward(self, upper: UpperLayers, states: Tensor, mask: Tensor) -> Tensor:
        """Outputs [B, C], or [B, T, C] for a head of tokens, fp32, from states [B, T, d] at the cut."""
        features = self.features(upper, states, mask)
        with torch.autocast(states.device.type, enabled=False):
            outputs = self.trained_head().apply(functional.dropout(features, self._dropout, self.training))
        if POOLINGS[self.pooling].per_token:
            return outputs.masked_fill(~mask[:, :, None], PADDING_LOGIT)
        return outputs

    def features(self, upper: UpperLayers, states: Tensor, mask: Tensor) -> Tensor:
        """What the head reads, fp32: [B, w], or [B, T, w] of tokens. As `forward`."""
        weights = {name: value.to(upper.dtype) for name, value in self._weights().items()}
        pets = SharedPets(weights, self._spec)
        dropped = functional.dropout(states, self._dropout, self.training)
        last: Tensor = upper(dropped, mask, pets)
        with torch.autocast(states.device.type, enabled=False):
            return pool(last, mask, self.pooling, dropped)

    def rates(self, learning_rate: float) -> list[dict[str, Any]]:
        """The groups of parameters for an optimizer: each kind of PET has a rate of its own."""
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            owner = name.removeprefix("pet.").split(_DOT_REPLACEMENT)[0]
            rate = next((kind.rate for kind in KINDS if kind.name == owner), 1.0)
            groups.setdefault(rate, []).append(parameter)
        return [{"params": some, "lr": rate * learning_rate} for rate, some in groups.items()]

    def trained_pet(self) -> PetWeights:
        """The PET, sharing memory with the parameters."""
        return PetWeights(self._spec, self._shape, self._weights())

    def trained_head(self) -> Head:
        """The head, sharing memory with the parameters."""
        return Head.from_tensors(dict(self.head.items()), self.pooling, self.activation)

    @torch.no_grad()
    def warm_start(self, earlier: Hplm, head: Head, labels: Sequence[str]) -> dict[str, bool]:
        """Copy an earlier version's weights; return what was copied.

        Copies its PET if that has the same shape, and then also the rows of `head` for shared labels, if it
        has the same pooling. head: the earlier head as this task trains it (`TaskKind.training_head`).
        """
        same_pet = (earlier.pet.spec, earlier.pet.shape) == (self._spec, self._shape)
        if same_pet:
            for name, value in earlier.pet.weights.items():
                self.pet[_parameter_name(name)].copy_(value)
        same_head = same_pet and head.pooling == self.pooling and earlier.head.inner is None
        for row, label in enumerate(labels if same_head else ()):
            if label in earlier.labels:
                known = earlier.labels.index(label)
                self.head["weight"][row] = head.weight[known]
                self.head["bias"][row] = head.bias[known]
        return {"pet": same_pet, "head": same_head}

    def _weights(self) -> dict[str, Tensor]:
        return {name.replace(_DOT_REPLACEMENT, "."): value for name, value in self.pet.items()}


_DOT_REPLACEMENT = "__"


def _parameter_name(name: str) -> str:
    return name.replace(".", _DOT_REPLACEMENT)


def _copy(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value.detach().clone().float())
