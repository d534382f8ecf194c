"""From a policy to what the engine does with a request."""

from dataclasses import dataclass
from typing import Final

from inference.cascade.dispatcher import AnswerPolicy, Dispatcher, Level, OutputKind
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import Candidate, CascadeProfile


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """level: at which texts are answered first. dispatcher: decides which of them go on to the level FULL;
    None: none does. weight: of the level FULL in the answer to a text that went on. platt: of the answers to
    texts that are computed in full."""

    level: Level
    dispatcher: Dispatcher | None = None
    weight: float = 1.0
    platt: PlattScaling = UNSCALED

    @property
    def pruning(self) -> float:
        """How much texts that go on are pruned, see `Dispatcher`."""
        return self.dispatcher.pruning if self.dispatcher else 0.0


IN_FULL: Final = AnswerPlan(Level.FULL)


def answer_plan(
    policy: AnswerPolicy,
    kind: OutputKind | None,
    profile: CascadeProfile | None,
    target: float | None = None,
    *,
    table_only: bool = False,
) -> AnswerPlan:
    """What a policy means for a model whose outputs are of this kind (None: embeddings).

    profile: of the version; without one the cascade sends every text on that is not very sure, and all
    numbers. Embeddings have no confidence: the cascade computes them in full. target: the metric on dev that
    is to be reached at the least cost. One of the levels alone may do that; without a target, FULL does where
    the cascade costs no less, since nearly all texts go on. table_only: whatever the policy, no text is
    computed in full.
    """
    if policy is AnswerPolicy.TABLE or table_only:
        return AnswerPlan(Level.TABLE)
    if policy is AnswerPolicy.FULL or kind is None or (kind == "number" and profile is None):
        return AnswerPlan(Level.FULL, platt=profile.full.platt) if profile else IN_FULL
    if profile is None:
        return AnswerPlan(Level.TABLE, Dispatcher(kind))
    candidate = profile.candidate(target)
    match _level_alone(profile, candidate, target):
        case Level.TABLE:
            return AnswerPlan(Level.TABLE)
        case Level.FULL:
            return AnswerPlan(Level.FULL, platt=profile.full.platt)
    return AnswerPlan(Level.TABLE, profile.dispatcher(candidate), candidate.weight, candidate.platt)


def _level_alone(profile: CascadeProfile, candidate: Candidate, target: float | None) -> Level | None:
    """The level that is to answer instead of the candidate that is best for the target, if any."""
    if target is None:
        return None if profile.saves(candidate) else Level.FULL
    if profile.table.metric >= target:
        return Level.TABLE
    if candidate.metric < target:  # the candidate with the best metric
        return Level.FULL if profile.full.metric >= candidate.metric else None
    return Level.FULL if profile.full.metric >= target and not profile.saves(candidate) else None
