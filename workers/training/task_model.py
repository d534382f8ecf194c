"""What fine-tuning trains: a PET in the upper layers and the head (paper section 3.2.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.encoder import UpperLayers
from inference.hplm.heads import Head, pool
from inference.hplm.hplm import Hplm
from inference.hplm.pet_batch import SharedPets
from inference.hplm.pets import PetSpec, PetWeights, UpperShape

# What a head says at padding: no softmax over the tokens may choose it.
NEVER = -1e4


class TaskModel(nn.Module):
    """A PET and a head as parameters, over upper layers that are not its own.

    dropout: of what the layers read at the cut and of what the head reads, while training.
    """

    def __init__(self, pet: PetWeights, head: Head, *, dropout: float = 0.0) -> None:
        super().__init__()
        self._spec: PetSpec = pet.spec
        self._shape: UpperShape = pet.shape
        self._dropout = dropout
        self.pooling, self.activation = head.pooling, head.activation
        # A parameter's name may not hold a dot.
        self.pet = nn.ParameterDict({_flat(k): _copy(v) for k, v in pet.weights.items()})
        self.head = nn.ParameterDict({name: _copy(value) for name, value in head.tensors().items()})

    def forward(self, upper: UpperLayers, states: Tensor, mask: Tensor) -> Tensor:
        """Outputs [B, C], or [B, T, C] where the head reads tokens, fp32, of states [B, T, d] at the cut."""
        pets = SharedPets({name: value.to(upper.dtype) for name, value in self._weights().items()})
        last: Tensor = upper(functional.dropout(states, self._dropout, self.training), mask, pets)
        with torch.autocast(states.device.type, enabled=False):
            features = functional.dropout(pool(last, mask, self.pooling), self._dropout, self.training)
            outputs = self.trained_head().apply(features)
        return outputs.masked_fill(~mask[:, :, None], NEVER) if self.pooling == "token" else outputs

    def trained_pet(self) -> PetWeights:
        """The PET, sharing memory with the parameters."""
        return PetWeights(self._spec, self._shape, self._weights())

    def trained_head(self) -> Head:
        """The head, sharing memory with the parameters."""
        return Head.from_tensors(dict(self.head.items()), self.pooling, self.activation)

    @torch.no_grad()
    def take_over(self, earlier: Hplm, head: Head, labels: Sequence[str]) -> dict[str, bool]:
        """Start from an earlier version, and tell what could be taken: its PET when it has the same parts,
        the rows of its `head`, as this task trains it, for the labels that both know when they read the same.
        """
        same_pet = (earlier.pet.spec, earlier.pet.shape) == (self._spec, self._shape)
        if same_pet:
            for name, value in earlier.pet.weights.items():
                self.pet[_flat(name)].copy_(value)
        same_head = same_pet and head.pooling == self.pooling and earlier.head.inner is None
        for row, label in enumerate(labels if same_head else ()):
            if label in earlier.labels:
                known = earlier.labels.index(label)
                self.head["weight"][row] = head.weight[known]
                self.head["bias"][row] = head.bias[known]
        return {"pet": same_pet, "head": same_head}

    def _weights(self) -> dict[str, Tensor]:
        return {name.replace(_DOT, "."): value for name, value in self.pet.items()}


_DOT = "__"


def _flat(name: str) -> str:
    return name.replace(".", _DOT)


def _copy(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value.detach().clone().float())
