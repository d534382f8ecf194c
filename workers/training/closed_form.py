"""A local lower half without any training: one ridge regression on the hidden states of fragments.

A token's state is the sum of what three fragments say of it, each through the map of its level and slot,
and of a bias of its position. All these maps are fitted together, half on complete tri-grams and half on a
mix of levels as an incomplete table gives it, because what a fall-back row should say depends on what its
neighbours leave unsaid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.ridge import NormalEquations
from workers.training.sequences import Batch, make_batch
from workers.training.states import Teacher, fall_back_at_random

# Shares of the complete tri-grams that the second half of the rows reads at each level.
FALL_BACK = {fragments.LEVEL_LEFT: 0.25, fragments.LEVEL_RIGHT: 0.1, fragments.LEVEL_UNI: 0.25}
# Where no fragment stands: before the first token and after the last.
NOTHING = len(fragments.LEVELS)
# Rows of one combination of levels gathered before they are multiplied.
ROWS_AT_ONCE = 512

Combination = tuple[int, int, int]


@dataclass
class ClosedForm:
    """Fits `local` in place.

    position_features: [max_tokens, p], of which a position's bias is a linear function; so positions that the
    corpus never reached get a sensible bias too.
    """

    local: LocalLower
    teacher: Teacher
    position_features: Tensor
    config: RootConfig
    arithmetic: Arithmetic
    penalty: float
    seed: int
    _waiting: dict[Combination, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)

    @torch.no_grad()
    def fit(self, groups: Sequence[list[Ids]], reporter: Reporter) -> None:
        """One pass over the batches, then one solution."""
        reporter.stage("closed form", len(groups) + 1)
        rng = np.random.default_rng(self.seed)
        levels, slots, hidden = len(fragments.LEVELS), fragments.N, self.config.hidden
        maps = levels * slots * hidden
        equations = NormalEquations(maps + self.position_features.shape[1], hidden)
        for done, sequences in enumerate(groups, start=1):
            reporter.check()
            batch = make_batch(sequences, self.config)
            target = self.teacher.at_cut(batch)
            mixed = fall_back_at_random(batch.unique, self.config.missing_id, rng, FALL_BACK)
            for read in (batch.unique, mixed):
                self._gather(batch, read, target)
                self._multiply(equations, ROWS_AT_ONCE)
            reporter.advance(done)
        reporter.check()
        self._multiply(equations, 1)
        weights, bias = equations.solve(self.penalty)
        self.local.level_maps.copy_(weights[:maps].reshape(levels, slots, hidden, hidden))
        self.local.level_bias.zero_()
        self.local.position_bias.copy_(self.position_features.cpu() @ weights[maps:] + bias)
        reporter.advance(len(groups) + 1)

    def _gather(self, batch: Batch, read: npt.NDArray[np.int64], target: Tensor) -> None:
        """Sort the tokens of a batch by the levels of the three fragments that speak of them."""
        states = self._sources(read)
        level = torch.from_numpy(fragments.level_of(read, self.config.missing_id).astype(np.int64))
        rows, places = torch.nonzero(batch.mask, as_tuple=True)
        own = batch.where[rows, places]
        first, last = places == 0, places == batch.lengths[rows] - 1
        # The fragments that say something of the token in their slots 0, 1 and 2: the next, its own, the
        # one before.
        speakers = torch.stack((own.roll(-1), own, own.roll(1)), dim=1)
        spoken = level[speakers]
        spoken[last, 0] = NOTHING
        spoken[first, 2] = NOTHING
        combinations, which = torch.unique(spoken, dim=0, return_inverse=True)
        for number, combination in enumerate(combinations.tolist()):
            chosen = (which == number).to(states.device)
            slots = [slot for slot, at in enumerate(combination) if at != NOTHING]
            features = [states[speakers.to(states.device)[chosen, slot], slot] for slot in slots]
            positions = self.position_features[places.to(states.device)[chosen]]
            wanted = target[rows.to(states.device)[chosen], places.to(states.device)[chosen]]
            waiting = self._waiting.setdefault((combination[0], combination[1], combination[2]), [])
            waiting.append((torch.cat([*features, positions], dim=1), wanted))

    def _sources(self, read: npt.NDArray[np.int64]) -> Tensor:
        """What each slot's map is applied to, [U, 3, d]: the slot's own hidden state, the centre's where it
        has none.
        """
        with self.arithmetic.autocast():
            states, present = self.local.states(torch.from_numpy(read).to(self.arithmetic.device))
        return torch.where(present[..., None], states, states[:, 1:2]).float()

    def _multiply(self, equations: NormalEquations, enough: int) -> None:
        """Hand over the combinations for which at least `enough` rows wait."""
        hidden = self.config.hidden
        for combination, waiting in list(self._waiting.items()):
            if sum(len(x) for x, _ in waiting) < enough:
                continue
            del self._waiting[combination]
            blocks = [
                torch.arange(hidden) + (level * fragments.N + slot) * hidden
                for slot, level in enumerate(combination)
                if level != NOTHING
            ]
            positions = torch.arange(len(fragments.LEVELS) * fragments.N * hidden, equations.features)
            x, y = (torch.cat(parts) for parts in zip(*waiting, strict=True))
            equations.add(x, y, torch.cat([*blocks, positions]))
