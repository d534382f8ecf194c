"""The kinds of task by name."""

from collections.abc import Sequence
from typing import Final

from workers.training.tasks.base import TaskKind
from workers.training.tasks.text_tasks import Classification, MultiLabel, Regression
from workers.training.tasks.token_tasks import QuestionAnswering, Tagging

_KINDS: Final[dict[str, type[TaskKind]]] = {
    kind.name: kind for kind in (Classification, MultiLabel, Regression, Tagging, QuestionAnswering)
}


def task_kind(name: str, labels: Sequence[str] = (), threshold: float = 0.5) -> TaskKind:
    """A new `TaskKind` by name. labels: those of a stored model; to train one, call `fit` instead."""
    return _KINDS[name](labels, threshold)
