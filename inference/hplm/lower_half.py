"""What stands in for the lower layers of a text."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from inference.hplm.compose import Composition
from inference.hplm.full_lower import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.miss_plan import CostModel, LevelErrors
from inference.hplm.plot import PlotChain
from inference.hplm.row_gather import Hot


@dataclass(frozen=True, slots=True, eq=False)
class LowerHalf:
    """All that can stand in for the lower layers of a text: a chain of tables, the local lower layers of its
    nearest version, the root's own. Without the last two nothing can be computed and tables alone answer.

    ``composition`` is the chain's where it lies on the device already; ``costs`` defaults to nominal ones;
    ``hot`` has what is on the device of each of the chain's tables, or is empty.
    """

    chain: PlotChain
    local: LocalLower | None = None
    full: FullLower | None = None
    errors: LevelErrors = field(default_factory=LevelErrors)
    costs: CostModel | None = None
    composition: Composition | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    hot: Sequence[Hot] = ()

    @property
    def cost_model(self) -> CostModel:
        """What was measured, or else that a fragment costs its tokens."""
        return self.costs or CostModel.nominal(self.chain.n)
