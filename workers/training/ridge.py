"""Ridge regression in one pass over data that does not fit in memory."""

import torch
from torch import Tensor


class NormalEquations:
    """Accumulates X'X and X'Y in float64 and solves (X'X + λI) W = X'Y, the bias free of the penalty.

    Rows may be sparse by columns: what is added has non-zero features in the given columns only. Products
    are taken in the precision of what is added (a few thousand rows at a time) and summed in float64.
    """

    def __init__(self, features: int, targets: int) -> None:
        self.features = features
        self._xx = torch.zeros(features + 1, features + 1, dtype=torch.float64)
        self._xy = torch.zeros(features + 1, targets, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor, columns: Tensor | None = None) -> None:
        """Rows `x` [N, k] with targets `y` [N, targets]; x[:, j] is feature `columns[j]` (int64 [k]; all by
        default).
        """
        where = torch.arange(self.features) if columns is None else columns.cpu()
        where = torch.cat((where, torch.tensor([self.features])))
        ones = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
        self._xx[where[:, None], where] += (ones.T @ ones).cpu().double()
        self._xy[where] += (ones.T @ y).cpu().double()

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """Weights [features, targets] and bias [targets], float32."""
        penalties = torch.full((self.features + 1,), penalty, dtype=torch.float64)
        # The bias is free, but for a trace that keeps an empty or constant system solvable.
        penalties[-1] = 1e-6
        # In place and back: with the hidden size of a large model this matrix takes a gigabyte.
        self._xx.diagonal().add_(penalties)
        factor = torch.linalg.cholesky(self._xx)
        self._xx.diagonal().sub_(penalties)
        solution = torch.cholesky_solve(self._xy, factor)
        return solution[:-1].float(), solution[-1].float()

    def solve_low_rank(self, rank: int, penalty_share: float) -> tuple[Tensor, Tensor]:
        """`down` [features, rank] and `up` [rank, targets], float32, without a bias: of all maps of that rank
        the one nearest to the full solution on the data (reduced-rank regression).

        penalty_share: the penalty, of the mean variance of a feature.
        """
        xx, xy, count = self._xx[:-1, :-1], self._xy[:-1], self._xx[-1, -1].clamp(min=1)
        variance = xx.diagonal() - self._xx[-1, :-1].square() / count
        penalty = penalty_share * variance.mean() + 1e-6
        penalised = xx.clone()
        penalised.diagonal().add_(penalty)
        factor = torch.linalg.cholesky(penalised)
        weights = torch.cholesky_solve(xy, factor)
        _, directions = torch.linalg.eigh(weights.T @ xx @ weights)
        up = directions[:, -rank:].T
        return (weights @ up.T).float(), up.float()
