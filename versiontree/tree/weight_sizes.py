"""How many bytes the weights of a model and the rows of a table have, from shapes alone.

What makes them (``inference.hplm.pets`` and ``heads``) the web process does not load; a test holds the two
together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from tenants.datasets.models import Dataset, Task
from versiontree.jobs.models import JobKind
from versiontree.tree.training_settings import settings_with_defaults

PET_BYTES: Final = 2
HEAD_BYTES: Final = 4
VECTOR_BYTES: Final = {"float16": 2, "int8": 1}
ROW_OVERHEAD_BYTES: Final = 40
"""About what the index of a table and the scales of its vectors take, a row."""
DEFAULT_FRAGMENT_TOKENS: Final = 3
TOKEN_TASKS: Final = (Task.TAGGING, Task.QUESTION_ANSWERING)


@dataclass(frozen=True, slots=True)
class UpperLayers:
    """Of a root's upper layers: how many, their width, and that of their feed-forward block."""

    layers: int
    hidden: int
    inner: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """From the root's own file. Raises KeyError, TypeError or ValueError for what is none."""
        shape = config["architecture"]
        layers = int(shape["layers"]) - int(config["lower"])
        return cls(layers, int(shape["hidden"]), int(shape["inner"]))

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """(input, output) of a layer's linear maps: query, key, value, output, the feed-forward's two."""
        return (*[(self.hidden, self.hidden)] * 4, (self.hidden, self.inner), (self.inner, self.hidden))

    @property
    def weights(self) -> int:
        """Of all linear maps."""
        return self.layers * sum(into * out for into, out in self.maps)


def table_row_bytes(config: Mapping[str, Any], vectors: str) -> int:
    """Of a fragment in a table of the root whose own file this is. Raises KeyError, TypeError or ValueError
    for what is none."""
    numbers = int(config.get("n", DEFAULT_FRAGMENT_TOKENS)) * int(config["architecture"]["hidden"])
    return numbers * VECTOR_BYTES[vectors] + ROW_OVERHEAD_BYTES


def weights_bytes(shape: UpperLayers, dataset: Dataset, settings: Mapping[str, Any]) -> int:
    """Of the PET and the head that training with these settings makes; of a tagger at most, since a kind of
    span that is never longer than a word needs one output less."""
    full = settings_with_defaults(JobKind.FINE_TUNE, settings)
    return PET_BYTES * shape.layers * _pet(shape, full) + HEAD_BYTES * _head(shape, dataset, full)


def _pet(shape: UpperLayers, full: Mapping[str, Any]) -> int:
    """Numbers in one layer."""
    widths = [int(full[name]) for name in ("adapter", "output_adapter") if full[name]]
    adapters = sum(2 * width * shape.hidden + width + shape.hidden for width in widths)
    lora = int(full["lora"]) * sum(into + out for into, out in shape.maps)
    biases = sum(out for _, out in shape.maps) if full["biases"] else 0
    return adapters + lora + biases + (4 * shape.hidden if full["norms"] else 0)


def _head(shape: UpperLayers, dataset: Dataset, full: Mapping[str, Any]) -> int:
    reads_mean = dataset.task not in TOKEN_TASKS and full["pooling"] == "cls_mean"
    width = 2 * shape.hidden if reads_mean else shape.hidden
    return _outputs(dataset) * (width + 1)


def _outputs(dataset: Dataset) -> int:
    """How many numbers the head says: what it can answer is learnt from train."""
    if dataset.task in (Task.REGRESSION, Task.QUESTION_ANSWERING):
        return len(dataset.labels)
    train = dataset.report.get("splits", {}).get("train", {})
    kinds = len(train.get("labels", dataset.labels))
    return 1 + 2 * kinds if dataset.task == Task.TAGGING else kinds
