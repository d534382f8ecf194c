"""From a policy to what the engine does with a request."""

from dataclasses import dataclass
from typing import Final

from inference.cascade.dispatcher import AnswerPolicy, Dispatcher, Level, OutputKind
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import Candidate, CascadeProfile, Serving


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """level: at which texts are answered first. dispatcher: decides which of them go on to the level FULL;
    None: none does. weight: of the level FULL in the answer to a text that went on. platt: of the answers to
    texts that are computed in full."""

    level: Level
    dispatcher: Dispatcher | None = None
    weight: float = 1.0
    platt: PlattScaling = UNSCALED


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

    profile: of the version; without one nobody knows what the tables would lose, and the cascade computes
    every text in full. So it does with embeddings, which have no confidence. target: the metric on dev that
    is to be reached at the least cost, see `CascadeProfile.serving`. table_only: whatever the policy, no text
    is computed in full.
    """
    if policy is AnswerPolicy.TABLE or table_only:
        return AnswerPlan(Level.TABLE)
    if kind is None or profile is None:
        return IN_FULL
    serving: Serving = Level.FULL if policy is AnswerPolicy.FULL else profile.serving(target)
    if isinstance(serving, Candidate):
        return AnswerPlan(Level.TABLE, profile.dispatcher(serving), serving.weight, serving.platt)
    return AnswerPlan(serving, platt=profile.full.platt if serving is Level.FULL else UNSCALED)
