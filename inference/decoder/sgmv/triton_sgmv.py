"""SGMV (segmented gather matrix-vector multiplication; Punica, section 4) on a GPU.

Two Triton kernels compute the LoRAs of all segments, whatever their ranks: shrink multiplies inputs by A to
narrow rows, expand multiplies these by B.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final

import torch
from torch import Tensor

from inference.decoder.lora_layout import INPUT_OF, LoraLayout, is_adapter
from inference.decoder.sgmv.segments import Segments
from inference.decoder.sgmv.triton_kernels import LOAD_BYTES, expand_kernel, shrink_kernel
from inference.hplm.upload import Upload

BLOCK_ROWS: Final = 16
BLOCK_COLUMNS: Final = 16
BLOCK_INPUTS: Final = 64
BLOCK_OUTPUTS: Final = 64
BLOCK_RANK: Final = 16
MAX_SPLIT_K: Final = 8
INPUTS_OF_A_SPLIT: Final = 256
Key = tuple[int, str]
Keys = tuple[Key, ...]


class TritonSgmv:
    """Adds the LoRAs of a step's segments. What the kernels must know is copied to the device once, with
    whatever else is in `upload` (None: by itself)."""

    def __init__(self, segments: Segments, upload: Upload | None = None) -> None:
        self._segments = segments  # The kernels read its LoRAs by address.
        layouts = dict.fromkeys(segment.lora.layout for segment in segments.segments)
        self._columns = _columns(segments)
        self._shrink_keys = _keys(_shrinks(layout)[0] for layout in layouts)
        self._expand_keys = _keys(_expands(layout)[0] for layout in layouts)
        row = segments.segments[0].lora.row
        self._dtype = row.dtype
        upload = upload or Upload(row.device)
        metadata = self._metadata_of(segments)
        self._is_aligned = _is_aligned(metadata[2:])
        self._uploaded = [upload.add(part.numpy()) for part in metadata]
        self._shrunk: tuple[Key, Tensor, Tensor] | None = None

    @cached_property
    def _metadata(self) -> list[Tensor]:
        """`_metadata_of` the segments, on the device."""
        return [part.tensor for part in self._uploaded]

    @cached_property
    def _shrinks(self) -> dict[Key, Tensor]:
        return dict(zip(self._shrink_keys, self._metadata[2], strict=True))

    @cached_property
    def _expands(self) -> dict[Key, Tensor]:
        return dict(zip(self._expand_keys, self._metadata[3], strict=True))

    def refresh(self, segments: Segments) -> None:
        """Replace the step's metadata in place, for the replay of a CUDA graph that was captured with it.

        The step may have fewer segments, rows and tiles than the first, and LoRAs of the same or smaller
        ranks on the same or fewer projections.
        """
        assert _columns(segments) <= self._columns, "the ranks are larger than those of the first step"
        metadata = self._metadata_of(segments)
        assert _is_aligned(metadata[2:]) >= self._is_aligned, (
            "factors lie at other addresses than in the first"
        )
        for own, part in zip(self._metadata, metadata, strict=True):
            fits = all(size <= room for size, room in zip(part.shape, own.shape, strict=True))
            assert fits, "the step is larger than the first"
            own.zero_()
            own[tuple(map(slice, part.shape))].copy_(part)
        self._segments = segments

    def _metadata_of(self, segments: Segments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The rows [R] and tiles [tiles, 3] int32 and the tables [keys, 3, segments] int64, on the CPU."""
        rows = [segment.lora.row for segment in segments.segments]
        layouts = [segment.lora.layout for segment in segments.segments]
        return (
            segments.rows.int(),
            torch.tensor([*_tiles(segments)], dtype=torch.int32).view(-1, 3),
            _table(self._shrink_keys, [_shrinks(layout) for layout in layouts], rows),
            _table(self._expand_keys, [_expands(layout) for layout in layouts], rows),
        )

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        """As `ProjectionDeltas`; writes into `outputs`. Projections that read the same `inputs` share a
        launch, so `inputs` must not change between their calls. They may be `outputs`, as of adapters."""
        assert inputs.dtype == outputs.dtype == self._dtype, "the LoRAs are of another dtype"
        table = self._expands.get((layer, projection))
        if table is None:
            return outputs
        narrow = self._shrink((layer, INPUT_OF[projection]), inputs)
        rows, tiles = self._metadata[:2]
        grid = (len(tiles), -(-outputs.shape[1] // BLOCK_OUTPUTS))
        expand_kernel[grid](
            narrow, narrow.stride(1), narrow.shape[1],
            outputs, outputs.stride(0), outputs.shape[1],
            rows, tiles, *table.unbind(),
            BLOCK_ROWS=BLOCK_ROWS, BLOCK_OUTPUTS=BLOCK_OUTPUTS, BLOCK_RANK=BLOCK_RANK,
            SPLIT_K=narrow.shape[0], HAS_RELU=is_adapter(projection), IS_ALIGNED=self._is_aligned,
        )  # fmt: skip
        if outputs is inputs:
            self._shrunk = None
        return outputs

    def _shrink(self, key: Key, inputs: Tensor) -> Tensor:
        """The parts [SPLIT_K, rows, columns] of the narrow rows; kept for others that read `inputs`."""
        if self._shrunk is None or self._shrunk[0] != key or self._shrunk[1] is not inputs:
            rows, tiles = self._metadata[:2]
            narrow = inputs.new_empty(
                (split_k(inputs.shape[1]), len(rows), self._columns), dtype=torch.float32
            )
            grid = (len(tiles), -(-self._columns // BLOCK_COLUMNS), narrow.shape[0])
            addresses, columns, _ = self._shrinks[key].unbind()
            shrink_kernel[grid](
                inputs, inputs.stride(0), inputs.shape[1],
                narrow, narrow.stride(1), narrow.shape[1],
                rows, tiles, addresses, columns,
                BLOCK_ROWS=BLOCK_ROWS, BLOCK_COLUMNS=BLOCK_COLUMNS, BLOCK_INPUTS=BLOCK_INPUTS,
                SPLIT_K=narrow.shape[0], IS_ALIGNED=self._is_aligned,
            )  # fmt: skip
            self._shrunk = key, inputs, narrow
        return self._shrunk[2]


def split_k(inputs: int) -> int:
    """Into how many parts the shrink kernel splits so many inputs; whatever else is in the batch."""
    return min(MAX_SPLIT_K, max(1, inputs // INPUTS_OF_A_SPLIT))


def _tiles(segments: Segments) -> Iterator[tuple[int, int, int]]:
    """Segment, first row and end of each tile, in the order of `segments.rows`."""
    begin = 0
    for number, segment in enumerate(segments.segments):
        end = begin + len(segment.rows)
        for first in range(begin, end, BLOCK_ROWS):
            yield number, first, min(first + BLOCK_ROWS, end)
        begin = end


def _is_aligned(tables: Sequence[Tensor]) -> bool:
    """Whether all factors begin at addresses that wide loads need."""
    return all(bool((table[:, 0] % LOAD_BYTES.value == 0).all()) for table in tables)


def _columns(segments: Segments) -> int:
    """The most columns of a shrink block."""
    layouts = {segment.lora.layout for segment in segments.segments}
    return max((int(_shrinks(layout)[1][:, 1].max()) for layout in layouts), default=0)


def _keys(of_layouts: Iterable[Keys]) -> Keys:
    return tuple(dict.fromkeys(key for keys in of_layouts for key in keys))


def _table(keys: Keys, places: Sequence[tuple[Keys, Tensor]], rows: Sequence[Tensor]) -> Tensor:
    """By key: the address, the columns or rank, and the first column of each of n segments [keys, 3, n];
    zero columns where a segment's LoRA has no such block. places: of each segment, `_shrinks` or `_expands`
    of its layout; rows: of each, that of its LoRA."""
    if not rows:
        return torch.zeros(len(keys), 3, 0, dtype=torch.int64)
    table = torch.stack([_aligned(keys, *found) for found in places])
    table[..., 0] *= rows[0].itemsize
    table[..., 0] += torch.tensor([row.data_ptr() for row in rows])[:, None]
    return table.permute(1, 2, 0).contiguous()


def _aligned(keys: Keys, own: Keys, places: Tensor) -> Tensor:
    """The places [keys, 3] in the order of `keys`; zeros for those that are not a layout's own."""
    if own == keys:
        return places
    assert set(own) <= set(keys), "a LoRA changes projections that those of the first step do not"
    at = {key: number for number, key in enumerate(keys)}
    return places.new_zeros(len(keys), 3).index_copy_(0, torch.tensor([at[key] for key in own]), places)


@lru_cache(1024)
def _shrinks(layout: LoraLayout) -> tuple[Keys, Tensor]:
    """The layers and inputs, and the offset of each block, its columns, and 0 [keys, 3] int64."""
    places = [(block.offset, block.columns, 0) for block in layout.shrinks.values()]
    return tuple(layout.shrinks), torch.tensor(places)


@lru_cache(1024)
def _expands(layout: LoraLayout) -> tuple[Keys, Tensor]:
    """The layers and projections, and the offset of each B, its rank and first column [keys, 3] int64."""
    places = [(block.offset, block.rank, block.begin) for block in layout.expands.values()]
    return tuple(layout.expands), torch.tensor(places)
