"""The least that a text costs: the products of the upper layers over its tokens, and nothing else."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.serving.world import Encoder

ROWS = 32
"""Texts that are computed together."""


class Limit:
    """The six linear maps of each upper layer, with biases, over packed tokens: no attention, no norms."""

    def __init__(self, encoder: Encoder, dtype: torch.dtype, *, longest: int) -> None:
        hidden, inner = encoder.hidden, encoder.inner
        generator = torch.Generator().manual_seed(0)

        def draw(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(dtype)

        shapes = [(hidden, hidden)] * 4 + [(inner, hidden), (hidden, inner)]
        self._maps = [
            (draw(*shape), draw(shape[0]))
            for _ in range(encoder.layers - encoder.layers // 2)
            for shape in shapes
        ]
        self._states = {width: draw(ROWS * longest, width) for width in (hidden, inner)}

    @torch.inference_mode()
    def compute(self, lengths: Sequence[int]) -> None:
        """Texts of so many tokens each, by one thread: several would burn time while they wait for one
        another on a busy machine, which is no product."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        for start in range(0, len(lengths), ROWS):
            tokens = sum(lengths[start : start + ROWS])
            for weight, bias in self._maps:
                functional.linear(self._states[weight.shape[1]][:tokens], weight, bias)
        torch.set_num_threads(threads)
