"""The kinds of task by name."""

from collections.abc import Callable
from typing import Final

from workers.training.tasks.base import TaskKind
from workers.training.tasks.text_tasks import Classification, MultiLabel, Regression
from workers.training.tasks.token_tasks import QuestionAnswering, Tagging

_KINDS: Final[dict[str, Callable[[], TaskKind]]] = {
    kind.name: kind for kind in (Classification, MultiLabel, Regression, Tagging, QuestionAnswering)
}


def task_kind(name: str) -> TaskKind:
    """A fresh one: some remember what they learnt of the training split."""
    return _KINDS[name]()
