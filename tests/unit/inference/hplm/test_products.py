"""Products of batches of any size, in pieces of few sizes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch.nn import functional

from inference.hplm.bucketed_linear import FINE_BUCKET, MAX_BUCKET, addmm, bucket_slices, linear

ROWS = some.integers(1, 3 * MAX_BUCKET)
HALF = [torch.bfloat16, torch.float16]


def sizes_of(rows: int) -> set[int]:
    return {piece.stop - piece.start for piece in bucket_slices(rows)}


@given(ROWS)
def test_pieces_cover_all_rows_and_nothing_else(rows: int) -> None:
    covered = torch.zeros(rows)
    for piece in bucket_slices(rows):
        assert 0 <= piece.start < piece.stop <= rows
        covered[piece] = 1
    assert bool(covered.all())


def test_whatever_the_number_of_rows_there_are_few_sizes_of_pieces_and_few_pieces() -> None:
    assert len(set[int]().union(*(sizes_of(rows) for rows in range(FINE_BUCKET, 2 * MAX_BUCKET)))) == 19
    assert max(len(list(bucket_slices(rows))) for rows in range(1, MAX_BUCKET)) == 2


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("rows", [1, 63, 64, 100, 256, 300, 517, 1100])
def test_a_product_in_pieces_is_the_product(rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(rows)
    hidden, weight, bias = (torch.randn(shape).to(dtype) for shape in ((rows, 48), (32, 48), (32,)))
    exact = functional.linear(hidden.float(), weight.float(), bias.float())
    with torch.no_grad():
        torch.testing.assert_close(linear(hidden, weight, bias).float(), exact, rtol=0.01, atol=0.05)
        without = linear(hidden, weight, None).float()
        torch.testing.assert_close(without, exact - bias.float(), rtol=0.01, atol=0.05)
        beside = torch.randn(rows, 32).to(dtype)
        found = addmm(beside, hidden, weight.t()).float()
    torch.testing.assert_close(found, exact - bias.float() + beside.float(), rtol=0.01, atol=0.05)


def test_leading_dimensions_stay_as_they_are() -> None:
    hidden = torch.randn(5, 7, 48).bfloat16()[:, 1:]
    weight, bias = torch.randn(32, 48).bfloat16(), torch.randn(32).bfloat16()
    with torch.no_grad():
        found = linear(hidden, weight, bias)
    torch.testing.assert_close(found, functional.linear(hidden, weight, bias), rtol=0.01, atol=0.05)


def test_what_is_learnt_is_differentiated() -> None:
    weight = torch.randn(32, 48).bfloat16().requires_grad_()
    found = linear(torch.randn(70, 48).bfloat16(), weight, torch.zeros(32).bfloat16())
    (gradient,) = torch.autograd.grad(found.sum(), weight)
    assert gradient.shape == weight.shape


def test_where_types_are_cast_on_the_way_they_still_are() -> None:
    weight, bias = torch.randn(32, 48), torch.randn(32)
    hidden = torch.randn(70, 48)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = linear(hidden.bfloat16(), weight, bias)
        beside = addmm(bias, hidden.bfloat16(), weight.t())
    assert (found.dtype, beside.dtype) == (torch.bfloat16, torch.bfloat16)
    torch.testing.assert_close(found.float(), functional.linear(hidden, weight, bias), rtol=0.05, atol=0.2)
