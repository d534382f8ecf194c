"""The kinds of task by name."""

from collections.abc import Callable
from typing import Final

from workers.training.tasks.base import TaskKind
from workers.training.tasks.classification import Classification
from workers.training.tasks.multilabel import MultiLabel
from workers.training.tasks.question_answering import QuestionAnswering
from workers.training.tasks.regression import Regression
from workers.training.tasks.tagging import Tagging

_KINDS: Final[dict[str, Callable[[], TaskKind]]] = {
    kind.name: kind for kind in (Classification, MultiLabel, Regression, Tagging, QuestionAnswering)
}


def task_kind(name: str) -> TaskKind:
    """A fresh one: some remember what they learnt of the training split."""
    return _KINDS[name]()
