"""The paged key-value cache: keys and values of past tokens, in blocks of `block_size` tokens."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.decoder.decoder import Decoder
from inference.errors import HplmError


class KvCache:
    """Blocks of the keys and values of the layers that compute.

    blocks [layers, 2, blocks, block_size, kv_heads, head_dim]: keys first, then values. The block manager
    decides which sequence owns which block. The memory is not cleared: whoever writes a block's
    first token clears the block.
    """

    def __init__(
        self,
        layers: range,
        blocks: int,
        block_size: int,
        kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (len(layers), 2, blocks, block_size, kv_heads, head_dim)
        self.layers = layers
        self.block_size = block_size
        self.blocks = torch.empty(shape, dtype=dtype, device=device)

    @classmethod
    def of(cls, decoder: Decoder, blocks: int, block_size: int, layers: range | None = None) -> "KvCache":
        """A cache of these layers of a decoder (None: all), on its device and in its dtype."""
        shape = decoder.architecture
        return cls(
            range(shape.layers) if layers is None else layers,
            blocks,
            block_size,
            shape.kv_heads,
            shape.head_size,
            dtype=decoder.dtype,
            device=decoder.device,
        )

    @classmethod
    def within(cls, budget_bytes: int, decoder: Decoder, block_size: int) -> "KvCache":
        """As `of`, with as many blocks as budget_bytes hold. Raises HplmError(invalid_field) if they hold
        none."""
        size = block_bytes(decoder, block_size)
        if budget_bytes < size:
            message = f"the key-value cache has {budget_bytes} bytes, one block takes {size}"
            raise HplmError("invalid_field", message)
        return cls.of(decoder, budget_bytes // size, block_size)

    def __len__(self) -> int:
        """The number of blocks."""
        return self.blocks.shape[2]

    @property
    def bytes(self) -> int:
        """The size of all blocks."""
        return self.blocks.nbytes

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values [blocks, block_size, kv_heads, head_dim] of that layer of the decoder: views."""
        keys, values = self.blocks[self.layers.index(layer)]
        return keys, values

    def clear(self, blocks: Tensor) -> None:
        """Set these blocks [n] int64 to zero in all layers.

        Attention gives the weight zero to what lies behind the end of a sequence. If the block's last owner
        left a number there that is not finite, the product with zero is not finite either.
        """
        self.blocks.index_fill_(2, blocks, 0.0)

    def slots(self, block_table: Sequence[int], start: int, count: int) -> NDArray[np.int64]:
        """The slots [count] of the positions from start to start + count: slot s of a layer is token
        s % block_size of block s // block_size."""
        blocks, offsets = np.divmod(np.arange(start, start + count), self.block_size)
        slots: NDArray[np.int64] = np.asarray(block_table, np.int64)[blocks] * self.block_size + offsets
        return slots


def block_bytes(decoder: Decoder, block_size: int) -> int:
    """The size of a block of all layers of a decoder."""
    shape = decoder.architecture
    return 2 * shape.layers * block_size * shape.kv_heads * shape.head_size * decoder.dtype.itemsize
