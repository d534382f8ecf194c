"""What one trained model answers at each level and by the cascade: metrics, cost, calibration, by texts."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.accuracy.methods import Inputs
from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import Dispatcher, Level
from inference.cascade.profile import Candidate, CascadeProfile
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PetSpec, PetWeights, UpperShape
from workers.training.cascade.calibration import (
    expected_calibration_error,
    judged,
    reliability,
    reliability_of,
)
from workers.training.cascade.outputs import OutputsByLevel, count_operations, read_both_levels
from workers.training.cascade.selection import fit_profile
from workers.training.cascade.simulation import Mask, Simulation, escalated_by, metric_at, metric_of
from workers.training.datasets import read_examples
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone, prepare_split
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind

CUTOFFS: Final = (0.75, 0.85, 0.95)
"""Of Tabi's figure 8."""
Answers = Sequence[Any]


class StoredModel:
    """A trained model on its branch, which reads a split at both levels."""

    def __init__(self, inputs: Inputs, folder: Path, reporter: Reporter) -> None:
        precision = configure_torch(device="auto", precision="auto", seed=0)
        self._inputs, self._reporter = inputs, reporter
        self._backbone = Backbone.open(inputs.root, inputs.plots, precision, inputs.lower)
        stored = Hplm.load(folder, precision.device)
        self._kind = task_kind(inputs.task, stored.labels, stored.threshold)
        self._model = TaskModel(stored.pet, stored.head).to(precision.device)
        self._profile = CascadeProfile.load(folder)

    def outputs(self, file: Path) -> OutputsByLevel:
        """Of the rows of this file."""
        examples = read_examples(file, self._inputs.task)
        split = prepare_split(examples, self._kind, self._backbone, self._reporter, modes=("table", "full"))
        return read_both_levels(self._model, self._backbone, split, self._kind, self._reporter)

    def profile(self) -> CascadeProfile:
        """That of the model; of one without, it is fitted on the dev split."""
        return self._profile or fit_profile(self.outputs(self._inputs.files.dev))

    def dedicated_operations(self, outputs: OutputsByLevel) -> float:
        """The mean multiplications of a text in a model of the same layers without a PET."""
        config = self._backbone.root.config
        shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
        lengths = [len(encoding) for encoding, _ in outputs.sequences(Level.TABLE)]
        return float(count_operations(config, PetWeights.initial(PetSpec(), shape), lengths)[:, 1].mean())


class LevelFigures:
    """The figures of one split by one profile; nothing of the split is fitted."""

    def __init__(self, outputs: OutputsByLevel, profile: CascadeProfile) -> None:
        self._outputs, self._profile = outputs, profile
        self._temperatures = profile.table.temperature, profile.full.temperature
        self._pruned_by = cache(lambda pruning: Simulation(outputs.pruned_by(pruning), self._temperatures))
        self._confidences = outputs.confidences(Level.TABLE, profile.table.temperature, profile.threshold)

    def level(self, level: Level) -> dict[str, Any]:
        """Every text answered at this level."""
        outputs, at = self._outputs, list(Level).index(level)
        own = self._profile.table if level is Level.TABLE else self._profile.full
        after = reliability_of(outputs, level, own.temperature, own.platt)
        before = reliability_of(outputs, level, 1.0)
        return {
            "metric": metric_at(outputs, level),
            "operations": float(outputs.operations[:, at].mean()),
            "ece": expected_calibration_error(after) if after else None,
            "ece_before": expected_calibration_error(before) if before else None,
        }

    def cascade(self, plan: AnswerPlan) -> dict[str, Any]:
        """Texts answered by this plan. ece: of the confidence that is served."""
        if plan.dispatcher is None:
            return self.level(plan.level) | {"escalated": float(plan.level is Level.FULL), "pruning": 0.0}
        escalated = self._escalated(plan.dispatcher)
        simulation = self._pruned_by(plan.pruning)
        answers, outputs = simulation.answers(escalated, plan.weight), simulation.outputs
        calibrated = simulation.served_confidences(escalated, plan, self._profile)
        uncalibrated = Simulation(outputs, (1.0, 1.0)).confidences(escalated, plan.weight)
        return {
            "metric": metric_of(outputs, answers),
            "escalated": float(escalated.mean()),
            "pruning": plan.pruning,
            "operations": simulation.operations(escalated),
            "ece": self._ece(answers, calibrated),
            "ece_before": self._ece(answers, uncalibrated),
        }

    def by_cutoff(self) -> list[dict[str, float]]:
        """Tabi's figure 8: at each of CUTOFFS the share answered early and the metric of all. By confidence
        alone, as the paper's dispatcher; empty for numbers, which have none."""
        profile = self._profile
        if profile.kind == "number":
            return []
        return [self._at_cutoff(cutoff) for cutoff in CUTOFFS]

    def by_part(self, candidate: Candidate) -> dict[str, dict[str, float | None]]:
        """The metric of the texts that are answered early and of those that go on, each by what both levels
        answer, the level FULL to pruned texts, and the ensemble (Tabi, sections 7.3.2 to 7.3.4); None for a
        part without texts."""
        outputs, simulation = self._outputs, self._pruned_by(candidate.pruning)
        escalated = self._escalated(self._profile.dispatcher(candidate))
        ways = {
            "table": [outputs.kind.predict(one) for one in outputs.at(Level.TABLE)],
            "full": [outputs.kind.predict(one) for one in outputs.at(Level.FULL)],
            "pruned": [outputs.kind.predict(one) for one in simulation.outputs.at(Level.FULL)],
            "ensemble": simulation.answers(np.ones_like(escalated), candidate.weight),
        }
        goes_on = simulation.goes_on(escalated)
        return {
            part: {name: self._metric_of_part(answers, chosen) for name, answers in ways.items()}
            for part, chosen in (("early", ~goes_on), ("escalated", goes_on))
        }

    def _at_cutoff(self, cutoff: float) -> dict[str, float]:
        profile, weight = self._profile, self._profile.candidate().weight
        table = profile.table
        dispatcher = Dispatcher(profile.kind, table.temperature, profile.threshold, cutoff, platt=table.platt)
        escalated, simulation = self._escalated(dispatcher), self._pruned_by(0.0)
        return {
            "cutoff": cutoff,
            "early": 1 - float(escalated.mean()),
            "metric": metric_of(self._outputs, simulation.answers(escalated, weight)),
            "operations": simulation.operations(escalated),
        }

    def _escalated(self, dispatcher: Dispatcher) -> Mask:
        pairs = zip(self._confidences, self._outputs.coverage, strict=True)
        certainties = np.asarray([dispatcher.certainty(*pair) for pair in pairs])
        return escalated_by(dispatcher, certainties, self._outputs.draws)

    def _metric_of_part(self, answers: Answers, chosen: npt.NDArray[np.bool_]) -> float | None:
        places = np.flatnonzero(chosen).tolist()
        if not places:
            return None
        examples = [self._outputs.examples[at] for at in places]
        found = self._outputs.kind.compute_metrics(examples, [answers[at] for at in places], examples[:1])
        return float(found["value"])

    def _ece(self, answers: Answers, confidences: npt.NDArray[np.float64]) -> float | None:
        """Of these answers with these confidences; None for numbers."""
        known, right = judged(confidences, self._outputs.rights(answers))
        return expected_calibration_error(reliability(known.tolist(), right.tolist())) if len(right) else None


def level_figures(
    model: StoredModel, profile: CascadeProfile, test: Path, plans: Mapping[str, AnswerPlan]
) -> dict[str, Any]:
    """All of a model's figures on its test file. plans: of the cascade, by name. The candidate that is chosen
    without a target is measured by parts."""
    outputs = model.outputs(test)
    figures = LevelFigures(outputs, profile)
    return {
        "rows": len(outputs.table),
        "table": figures.level(Level.TABLE),
        "full": figures.level(Level.FULL),
        "cascade": {name: figures.cascade(one) for name, one in plans.items()},
        "dedicated_operations": model.dedicated_operations(outputs),
        "by_cutoff": figures.by_cutoff(),
        "by_part": figures.by_part(profile.candidate()),
    }
