"""What the placement on the busiest worker is compared with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from inference.generation.placement import Policy, busiest
from inference.generation.working_set import PlacedRequest, WorkingSet


def least_loaded(fitting: Sequence[WorkingSet], request: PlacedRequest) -> WorkingSet:  # noqa: ARG001 - a Policy
    """The worker with the smallest working set; among equals the one with the most free blocks."""
    return min(fitting, key=lambda one: (one.rows, one.blocks, one.worker))


class RoundRobin:
    """The next worker after the one that got the last request."""

    def __init__(self) -> None:
        self._last = -1

    def __call__(self, fitting: Sequence[WorkingSet], request: PlacedRequest) -> WorkingSet:
        later = [one for one in fitting if one.worker > self._last]
        chosen = min(later or fitting, key=lambda one: one.worker)
        self._last = chosen.worker
        return chosen


class ModelAware:
    """The busiest worker; among those within ``margin`` rows of it, one that has the request's model, whose
    adapter and whose prompts' common prefix it then has, too. A margin of 0 only breaks ties.

    residents: the models that a worker has, by the worker's id."""

    def __init__(
        self, model_of: Callable[[str], int], residents: Callable[[int], Mapping[int, None]], margin: int
    ) -> None:
        self._model_of, self._residents, self._margin = model_of, residents, margin

    def __call__(self, fitting: Sequence[WorkingSet], request: PlacedRequest) -> WorkingSet:
        model, most = self._model_of(request.request_id), max(one.rows for one in fitting)
        near = [one for one in fitting if one.rows >= most - self._margin]
        having = [one for one in near if model in self._residents(one.worker)]
        return busiest(having or near, request)


POLICIES: Final[Mapping[str, Callable[[], Policy]]] = {
    "busiest": lambda: busiest,
    "least loaded": lambda: least_loaded,
    "round robin": RoundRobin,
}
