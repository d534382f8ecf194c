"""SGMV (segmented gather matrix-vector multiplication; Punica, section 4) on a CPU.

One batched product for all short segments, a product of its own for each long one.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from inference.decoder.lora_layout import LoraLayout, ShrinkBlock
from inference.decoder.sgmv.segments import Segment, Segments
from inference.decoder.sgmv.stacks import LoraStacks

ROW_MULTIPLE: Final = 4
"""Products have a multiple of so many rows. Then a row's numbers do not depend on the number of rows: kernels
for fewer add up in another order."""
BATCHED_ROWS: Final = (4, 8, 12, 16)
"""The rows of each segment that a batched product may compute. From 16 rows on, products of their own are as
fast (ranks 8 to 64, sizes 576 and 1536, float32, one thread of an AMD EPYC with AVX2)."""
MIN_BATCHED_FACTOR: Final = 100
"""The least numbers of a factor in a batched product: PyTorch computes batched products of fewer than 400
multiplications, here of four rows, by a kernel of its own that adds up in another order."""
PRODUCT_COST: Final = 8
"""A product of its own takes as long as so many more rows of a batched one (measured there, too)."""


class CpuSgmv:
    """Adds the LoRAs of a step's segments. The products of a step are planned once, for all layers.

    stacks: where the LoRAs of short segments lie together; without, each segment is a product of its own.
    """

    def __init__(self, segments: Segments, stacks: LoraStacks | None = None) -> None:
        self._products: list[_Product] = []
        for same in _by_layout(segments.segments):
            rows = batched_rows([len(segment.rows) for segment in same])
            short = {segment.lora: segment for segment in same if len(segment.rows) <= rows}
            is_large = same[0].lora.layout.smallest_factor >= MIN_BATCHED_FACTOR
            if stacks is not None and len(short) > 1 and is_large:
                loras, weights = stacks.arrange([*short])
                self._products.append(_batched_product([short[lora] for lora in loras], weights, rows))
            else:
                short = {}
            self._products += [_own_product(segment) for segment in same if segment.lora not in short]

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        """As `ProjectionDeltas`; writes into `outputs`. Projections that read the same `inputs` share a
        product, so `inputs` must not change between their calls. They may be `outputs`, as of adapters."""
        for product in self._products:
            product.add((layer, projection), inputs, outputs)
        return outputs


def batched_rows(counts: Sequence[int]) -> int:
    """The number of rows up to which segments of `counts` rows share a batched product, which computes so
    many of each."""

    def cost(rows: int) -> int:
        return sum(rows if count <= rows else padded(count) + PRODUCT_COST for count in counts)

    return min(BATCHED_ROWS, key=cost)


def padded(count: int) -> int:
    """`count` rounded up to a multiple of ROW_MULTIPLE."""
    return -(-count // ROW_MULTIPLE) * ROW_MULTIPLE


class _Product:
    """The products with one LoRA, or batched ones with the LoRAs of n segments.

    weights: all weights of the LoRA as one row [width], or the rows [n, width] of several. computed: which
    rows of a step are computed, the padding among them: [m] or [n, m] int64, or a slice. own: which of the
    computed are no padding [R] int64, None: all. rows: where the results belong [R] int64, or a slice.
    """

    def __init__(
        self,
        layout: LoraLayout,
        weights: Tensor,
        computed: Tensor | slice,
        own: Tensor | None,
        rows: Tensor | slice,
    ) -> None:
        self._layout, self._weights = layout, weights
        self._computed, self._own, self._rows = computed, own, rows
        self._shrunk: tuple[ShrinkBlock, Tensor, Tensor] | None = None

    def add(self, key: tuple[int, str], inputs: Tensor, outputs: Tensor) -> None:
        """Add the update of a layer's projection or adapter, if there is one, to outputs [T, out] of inputs
        [T, in]."""
        block = self._layout.expands.get(key)
        if block is None:
            return
        narrow = self._shrink(block.shrink, inputs).narrow(-1, block.begin, block.rank)
        if block.has_relu:
            narrow = narrow.relu()
        update = torch.matmul(narrow, block.view(self._weights)).view(-1, block.outputs)
        if self._own is not None:
            update = update.index_select(0, self._own)
        if isinstance(self._rows, slice):
            outputs[self._rows].add_(update)
        else:
            outputs.index_add_(0, self._rows, update)
        if outputs is inputs:
            self._shrunk = None

    def _shrink(self, block: ShrinkBlock, inputs: Tensor) -> Tensor:
        """[..., columns] of the computed rows; kept for the other projections of the same inputs."""
        if self._shrunk is None or self._shrunk[0] is not block or self._shrunk[1] is not inputs:
            narrow = torch.matmul(self._select(inputs), block.view(self._weights))
            self._shrunk = block, inputs, narrow
        return self._shrunk[2]

    def _select(self, inputs: Tensor) -> Tensor:
        if isinstance(self._computed, slice):
            return inputs[self._computed]
        return inputs.index_select(0, self._computed.view(-1)).view(*self._computed.shape, -1)


def _own_product(segment: Segment) -> _Product:
    count, layout, weights = len(segment.rows), segment.lora.layout, segment.lora.row
    rows: Tensor | slice = torch.tensor(segment.rows)
    if segment.is_contiguous:
        rows = slice(segment.rows[0], segment.rows[-1] + 1)
    if padded(count) == count:
        return _Product(layout, weights, rows, None, rows)
    computed = torch.tensor(_pad(segment.rows, padded(count)))
    return _Product(layout, weights, computed, torch.arange(count), rows)


def _batched_product(segments: Sequence[Segment], weights: Tensor, rows: int) -> _Product:
    computed = torch.tensor([_pad(segment.rows, rows) for segment in segments])
    own = [place * rows + at for place, segment in enumerate(segments) for at in range(len(segment.rows))]
    target = [row for segment in segments for row in segment.rows]
    is_full = len(own) == len(segments) * rows
    return _Product(
        segments[0].lora.layout,
        weights,
        computed,
        None if is_full else torch.tensor(own),
        torch.tensor(target),
    )


def _pad(rows: Sequence[int], count: int) -> list[int]:
    """`count` row numbers: the segment's own, then its last one again."""
    return [*rows, *[rows[-1]] * (count - len(rows))]


def _by_layout(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Segments whose LoRAs have the same layout and dtype, together."""
    found: dict[tuple[LoraLayout, torch.dtype], list[Segment]] = {}
    for segment in segments:
        found.setdefault((segment.lora.layout, segment.lora.row.dtype), []).append(segment)
    return [*found.values()]
