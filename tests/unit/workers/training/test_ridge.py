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
