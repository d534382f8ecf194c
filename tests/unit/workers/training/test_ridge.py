"""Ridge regression in one pass."""

import torch

from workers.training.ridge_regression import NormalEquations


def test_a_planted_linear_problem_is_solved() -> None:
    torch.manual_seed(0)
    weights, bias = torch.randn(6, 3), torch.randn(3)
    equations = NormalEquations(6, 3)
    for _ in range(5):
        x = torch.randn(200, 6)
        equations.add(x, x @ weights + bias)
    found, found_bias = equations.solve(1e-6)
    torch.testing.assert_close(found, weights, atol=1e-4, rtol=0)
    torch.testing.assert_close(found_bias, bias, atol=1e-4, rtol=0)


def test_rows_that_have_some_columns_only_are_as_rows_with_zeros_elsewhere() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(50, 2), torch.randn(50, 1)
    full = torch.zeros(50, 5)
    full[:, [3, 1]] = x
    sparse, dense = NormalEquations(5, 1), NormalEquations(5, 1)
    sparse.add(x, y, torch.tensor([3, 1]))
    dense.add(full, y)
    for found, expected in zip(sparse.solve(1.0), dense.solve(1.0), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_penalty_shrinks_the_weights_and_not_the_bias() -> None:
    x = torch.tensor([[-1.0], [1.0]])
    equations = NormalEquations(1, 1)
    equations.add(x, 2 * x + 5)
    weights, bias = equations.solve(2.0)
    assert weights.item() == torch.tensor(1.0)  # 4 / (2 + 2)
    torch.testing.assert_close(bias, torch.tensor([5.0]), atol=1e-4, rtol=0)


def test_a_low_rank_solution_is_the_full_one_where_that_is_of_low_rank() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 6, generator=generator)
    weights = torch.randn(6, 2, generator=generator) @ torch.randn(2, 5, generator=generator)
    equations = NormalEquations(6, 5)
    equations.add(x, x @ weights)
    down, up = equations.solve_low_rank(2, 0.0)
    assert down.shape == (6, 2)
    assert up.shape == (2, 5)
    assert torch.allclose(down @ up, weights, atol=1e-3)


def test_of_all_low_rank_maps_the_one_nearest_on_the_data_is_found() -> None:
    generator = torch.Generator().manual_seed(1)
    # One direction of the features hardly varies: on the data it does not matter, however large its weight.
    x = torch.randn(2_000, 2, generator=generator) * torch.tensor([1.0, 0.01])
    weights = torch.tensor([[1.0, 0.0], [0.0, 10.0]])
    equations = NormalEquations(2, 2)
    equations.add(x, x @ weights)
    down, up = equations.solve_low_rank(1, 0.0)
    error = (x @ down @ up - x @ weights).square().mean()
    assert error < 0.02 * (x @ weights).square().mean()
