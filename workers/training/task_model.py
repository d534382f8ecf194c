"""What fine-tuning trains: the adapters in the upper layers and the head (paper section 3.2.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.adapters import AdapterWeights, BatchedAdapters
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.upper import UpperLayers


class SharedAdapter(BatchedAdapters):
    """The adapter of a batch whose rows all use the same one, as in training.

    The same function as that of a mixed batch, by plain products: batched ones are slow to differentiate.
    """

    def apply(self, layer: int, hidden: Tensor) -> Tensor:
        """As `BatchedAdapters.apply`."""
        down, up = self.down_w[layer, 0], self.up_w[layer, 0]
        narrow = functional.linear(hidden, down.T, self.down_b[layer, 0, 0]).relu()
        return hidden + functional.linear(narrow, up.T, self.up_b[layer, 0, 0])


class TaskModel(nn.Module):
    """Adapters and a head as parameters, over upper layers that are not its own."""

    def __init__(self, adapter: AdapterWeights, head: Head) -> None:
        super().__init__()
        self.adapter = nn.ParameterDict(_copies(adapter.tensors()))
        self.head = nn.ParameterDict(_copies(head.tensors()))

    def forward(
        self, upper: UpperLayers, states: Tensor, mask: Tensor, rows: Tensor, places: Tensor
    ) -> Tensor:
        """Logits [K, C] fp32 of the tokens (`rows`[k], `places`[k]) of a batch of states at the cut [B, T,
        d].
        """
        adapters = SharedAdapter.stack([self.adapter_weights()], [0] * len(states))
        last: Tensor = upper(states, mask, adapters)
        with torch.autocast(states.device.type, enabled=False):
            return self.head_weights().apply(last[rows, places])

    def adapter_weights(self) -> AdapterWeights:
        """The adapters, sharing memory with the parameters."""
        return AdapterWeights.from_tensors(dict(self.adapter.items()))

    def head_weights(self) -> Head:
        """The head, sharing memory with the parameters."""
        return Head.from_tensors(dict(self.head.items()))

    @torch.no_grad()
    def take_over(self, earlier: Hplm, labels: Sequence[str]) -> None:
        """Start from an earlier version: its adapters when they are of the same size, its head's rows for the
        labels that both know."""
        same_shape = earlier.adapter.down_w.shape == self.adapter["down_w"].shape
        if not same_shape:
            return
        for name, value in earlier.adapter.tensors().items():
            self.adapter[name].copy_(value)
        for row, label in enumerate(labels):
            if label in earlier.labels:
                known = earlier.labels.index(label)
                self.head["weight"][row] = earlier.head.weight[known]
                self.head["bias"][row] = earlier.head.bias[known]


def _copies(tensors: dict[str, Tensor]) -> dict[str, nn.Parameter]:
    return {name: nn.Parameter(value.detach().clone().float()) for name, value in tensors.items()}
