# Triton is not typed, and kernels are compiled, not called as Python.
# mypy: ignore-errors
# ruff: noqa: N803
"""Triton kernels of SGMV (Punica, section 4): shrink by split-K, expand by output columns.

Each program computes a tile: up to BLOCK_ROWS rows of one segment. Every number is written by one program,
without atomics, and what is added up in which order depends on the sizes of the factors alone. So a row's
numbers are the same each time and in any company.
"""

import triton
import triton.language as tl

OF_THE_STEP = ("narrow_stride", "narrow_rows", "rows", "tiles", "addresses", "columns", "ranks", "begins")
"""Arguments that differ by step: one compiled kernel serves all values, so that the numbers are the same."""
LOAD_BYTES = tl.constexpr(16)
"""The most bytes of a factor that a thread loads at once. With IS_ALIGNED all factors begin at a multiple of
them."""


@triton.jit(do_not_specialize=OF_THE_STEP)
def shrink_kernel(
    inputs, input_stride, input_size,
    narrow, narrow_stride, narrow_rows,
    rows, tiles, addresses, columns,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, BLOCK_INPUTS: tl.constexpr, SPLIT_K: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
):  # fmt: skip
    """narrow [SPLIT_K, narrow_rows, columns] float32: the parts of inputs [rows] @ A that each split of the
    inputs contributes. Grid: (tiles, blocks of columns, SPLIT_K).

    rows: row of `inputs` of each row of `narrow`. tiles [tiles, 3]: segment, first row and end in `narrow`.
    addresses, columns: where A of each segment begins, and its number of columns; 0: the segment has none.
    """
    tile, split = tl.program_id(0), tl.program_id(2)
    segment = tl.load(tiles + 3 * tile)
    width = tl.load(columns + segment)
    first_column = tl.program_id(1) * BLOCK_COLUMNS
    if first_column >= width:
        return
    places = tl.load(tiles + 3 * tile + 1) + tl.arange(0, BLOCK_ROWS)
    is_row = places < tl.load(tiles + 3 * tile + 2)
    source = tl.load(rows + places, mask=is_row, other=0)
    column = first_column + tl.arange(0, BLOCK_COLUMNS)
    is_column = column < width
    factor = tl.load(addresses + segment).to(tl.pointer_type(inputs.dtype.element_ty))
    if IS_ALIGNED:
        factor = tl.multiple_of(factor, LOAD_BYTES)
    total = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    # A has a multiple of 4 columns (`COLUMN_MULTIPLE`). With one of 8, half precision is loaded by 16 bytes.
    for multiple in tl.static_range(4, 12, 4):
        if (width % 8 == 0) == (multiple == 8):
            stride = width // multiple * multiple  # the width, whose multiple the compiler knows
            for first in range(split * BLOCK_INPUTS, input_size, SPLIT_K * BLOCK_INPUTS):
                at = first + tl.arange(0, BLOCK_INPUTS)
                is_input = at < input_size
                x = tl.load(
                    inputs + source[:, None] * input_stride + at[None, :],
                    mask=is_row[:, None] & is_input[None, :],
                    other=0.0,
                )
                a = tl.load(
                    factor + at[:, None] * stride + column[None, :],
                    mask=is_input[:, None] & (column < stride)[None, :],
                    other=0.0,
                )
                total = tl.dot(x, a, total, input_precision="ieee")
    target = (split * narrow_rows + places[:, None]) * narrow_stride + column[None, :]
    tl.store(narrow + target, total, mask=is_row[:, None] & is_column[None, :])


@triton.jit(do_not_specialize=OF_THE_STEP)
def expand_kernel(
    narrow, narrow_stride, narrow_rows,
    outputs, output_stride, output_size,
    rows, tiles, addresses, ranks, begins,
    BLOCK_ROWS: tl.constexpr, BLOCK_OUTPUTS: tl.constexpr, BLOCK_RANK: tl.constexpr, SPLIT_K: tl.constexpr,
    HAS_RELU: tl.constexpr, IS_ALIGNED: tl.constexpr,
):  # fmt: skip
    """Add narrow @ B to outputs [rows]; the SPLIT_K parts of `narrow` are added up first, in their order, and
    pass a ReLU with HAS_RELU. Grid: (tiles, blocks of outputs).

    addresses, ranks: where B of each segment begins, and its rank; 0: the segment has none. begins: the
    first of its columns of `narrow`. The rest is as in `shrink_kernel`.
    """
    tile = tl.program_id(0)
    segment = tl.load(tiles + 3 * tile)
    rank = tl.load(ranks + segment)
    if rank == 0:
        return
    places = tl.load(tiles + 3 * tile + 1) + tl.arange(0, BLOCK_ROWS)
    is_row = places < tl.load(tiles + 3 * tile + 2)
    target = tl.load(rows + places, mask=is_row, other=0)
    output = tl.program_id(1) * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    is_output = output < output_size
    factor = tl.load(addresses + segment).to(tl.pointer_type(outputs.dtype.element_ty))
    if IS_ALIGNED:
        factor = tl.multiple_of(factor, LOAD_BYTES)
    begin = tl.load(begins + segment)
    total = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS), dtype=tl.float32)
    for first in range(0, rank, BLOCK_RANK):
        at = first + tl.arange(0, BLOCK_RANK)
        is_rank = at < rank
        v = tl.zeros((BLOCK_ROWS, BLOCK_RANK), dtype=tl.float32)
        for split in tl.static_range(SPLIT_K):
            v += tl.load(
                narrow + (split * narrow_rows + places[:, None]) * narrow_stride + begin + at[None, :],
                mask=is_row[:, None] & is_rank[None, :],
                other=0.0,
            )
        if HAS_RELU:
            v = tl.where(v < 0, 0.0, v)
        b = tl.load(
            factor + at[:, None] * output_size + output[None, :],
            mask=is_rank[:, None] & is_output[None, :],
            other=0.0,
        )
        total = tl.dot(v.to(b.dtype), b, total, input_precision="ieee")
    place = outputs + target[:, None] * output_stride + output[None, :]
    is_own = is_row[:, None] & is_output[None, :]
    tl.store(
        place, (tl.load(place, mask=is_own, other=0.0) + total).to(outputs.dtype.element_ty), mask=is_own
    )
