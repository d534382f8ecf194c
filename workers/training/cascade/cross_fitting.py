"""Outputs for training rows by models that were trained without them, where dev has few rows.

What a level loses is seen only on the texts that both levels answer differently: with 120 dev rows these are
a dozen. A second training, in two halves, tells it of every training row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from inference.cascade.dispatcher import Level
from inference.cascade.profile import CascadeProfile
from inference.errors import HplmError
from workers.training.cascade.outputs import OutputsByLevel, read_both_levels, text_hash
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import Example
from workers.training.lower_states import LOWER_MODES
from workers.training.prepared_split import Backbone, PreparedSplit
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings, LearningRateSearch
from workers.training.task_model import TaskModel
from workers.training.tasks.base import TaskKind

FOLDS: Final = 2
ENOUGH_ROWS: Final = 1000
"""Dev rows from which dev alone tells enough."""
STAGES: Final = tuple(f"cross-fit {number} of {FOLDS}" for number in range(1, FOLDS + 1))


def may_gain_from_cross_fitting(profile: CascadeProfile, splits: Mapping[str, PreparedSplit]) -> bool:
    """Whether more rows than those of dev may show that tables serve: dev has few, and they do not show it.
    The training rows must have been read at both levels."""
    train, dev = splits["train"], splits["dev"]
    is_possible = set(LOWER_MODES) <= set(train.modes) and len(train.examples) >= FOLDS
    return is_possible and len(dev.examples) < ENOUGH_ROWS and profile.serving() is not Level.TABLE


def cross_fit(
    new_model: Callable[[], TaskModel],
    backbone: Backbone,
    splits: Mapping[str, PreparedSplit],
    kind: TaskKind,
    settings: FineTuneSettings,
    reporter: Reporter,
    checkpoints: CheckpointStore,
) -> list[OutputsByLevel]:
    """The outputs for each fold of splits["train"] at both levels, by a model that was trained on the other
    one with these settings, and whose epoch was chosen on dev. Without a fold whose training diverged.

    new_model: returns one that no training row has changed. Together the trainings cost as much as one of all
    rows.
    """
    train, found = splits["train"], list[OutputsByLevel]()
    for stage, (rest, fold) in zip(STAGES, _folds(train.examples), strict=True):
        model = new_model()
        given = {**splits, "train": train.subset(rest)}
        search = LearningRateSearch(model, backbone, given, kind, settings, reporter, checkpoints, stage)
        try:
            search.run()
        except HplmError as error:
            if error.code != "training_diverged":
                raise
            continue  # the model itself is trained
        found.append(read_both_levels(model, backbone, train.subset(fold), kind, reporter))
    return found


def _folds(examples: Sequence[Example]) -> Iterator[tuple[list[int], list[int]]]:
    """The indices outside and inside each fold, by the hash of the text: equal texts share a fold."""
    order = sorted(range(len(examples)), key=lambda at: text_hash(examples[at]))
    parts = np.array_split(np.asarray(order), FOLDS)
    for fold in parts:
        rest = np.setdiff1d(np.concatenate(parts), fold)
        yield rest.tolist(), sorted(fold.tolist())
