"""Bytes of a model's weights and of a table's rows, computed from shapes.

The web process cannot load ``inference.hplm.pets``, ``heads`` and ``inference.decoder.lora``, which create
them. A test compares both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Self

from tenants.datasets.models import Dataset, Task
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind
from versiontree.tree.training_settings import ADAPTER_SPECS, LORA_PROJECTIONS, settings_with_defaults

PET_BYTES: Final = 2
HEAD_BYTES: Final = 4
VECTOR_BYTES: Final = {"float16": 2, "int8": 1}
ROW_OVERHEAD_BYTES: Final = 40
"""Approximate bytes of the index and the scales of one row."""
DEFAULT_FRAGMENT_TOKENS: Final = 3
SHARED_INPUTS: Final = (("query", "key", "value"), ("output",), ("gate", "up"), ("down",))
"""The projections of a decoder that read the same input. Their factors A are stored side by side."""
COLUMN_MULTIPLE: Final = 4
"""Zeros fill such factors A up to a multiple of this number of columns."""
TOKEN_TASKS: Final = (Task.TAGGING, Task.QUESTION_ANSWERING)


@dataclass(frozen=True, slots=True)
class UpperLayers:
    """The shape of a root's upper layers: their number, hidden size and feed-forward size."""

    layers: int
    hidden: int
    inner: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """The shape in a root's ``root.json``. Raises KeyError, TypeError or ValueError if it is invalid."""
        shape = config["architecture"]
        layers = int(shape["layers"]) - int(config["lower"])
        return cls(layers, int(shape["hidden"]), int(shape["inner"]))

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """(input, output) sizes of a layer: query, key, value, output, and two of the feed-forward."""
        return (*[(self.hidden, self.hidden)] * 4, (self.hidden, self.inner), (self.inner, self.hidden))

    @property
    def weights(self) -> int:
        """The number of weights in all linear maps."""
        return self.layers * sum(inputs * outputs for inputs, outputs in self.maps)


@dataclass(frozen=True, slots=True)
class DecoderLayers:
    """The layers of a decoder root above its cut, which fine-tuning trains: their number, and the (input,
    output) sizes of each projection. ``head`` is the number of weights of the LM head."""

    layers: int
    projections: Mapping[str, tuple[int, int]]
    head: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """The shape in a ``decoder.json``. Raises KeyError, TypeError or ValueError if it is invalid."""
        shape = config["architecture"]
        hidden, inner, size = (int(shape[name]) for name in ("hidden", "inner", "head_size"))
        queries, keys = int(shape["heads"]) * size, int(shape["kv_heads"]) * size
        projections = {
            "query": (hidden, queries),
            "key": (hidden, keys),
            "value": (hidden, keys),
            "output": (queries, hidden),
            **({"gate": (hidden, inner)} if shape["gated"] else {}),
            "up": (hidden, inner),
            "down": (inner, hidden),
        }
        layers = int(shape["layers"]) - int(config["lower_layers"])
        return cls(layers, projections, hidden * int(shape["vocab"]))

    @property
    def weights(self) -> int:
        """The number of weights in all projections and the LM head."""
        return self.layers * sum(into * out for into, out in self.projections.values()) + self.head


TrainedLayers = UpperLayers | DecoderLayers


def trained_layers(config: Mapping[str, Any], kind: RootKind) -> TrainedLayers:
    """The layers that fine-tuning trains, from the config of a root of this kind.

    Raises KeyError, TypeError or ValueError if it is invalid.
    """
    return DecoderLayers.of(config) if kind == RootKind.DECODER else UpperLayers.of(config)


def table_row_bytes(config: Mapping[str, Any], vectors: str) -> int:
    """Bytes of a row in a table of the root with this ``root.json``.

    Raises KeyError, TypeError or ValueError if it is invalid.
    """
    numbers = int(config.get("n", DEFAULT_FRAGMENT_TOKENS)) * int(config["architecture"]["hidden"])
    return numbers * VECTOR_BYTES[vectors] + ROW_OVERHEAD_BYTES


def weights_bytes(shape: UpperLayers, dataset: Dataset, settings: Mapping[str, Any]) -> int:
    """Bytes of the PET and the head that training with these settings makes.

    For taggers an upper bound: labels whose spans are always one word need one output less.
    """
    full = settings_with_defaults(JobKind.FINE_TUNE, settings)
    return PET_BYTES * shape.layers * _pet(shape, full) + HEAD_BYTES * _head(shape, dataset, full)


def lora_bytes(shape: DecoderLayers, settings: Mapping[str, Any]) -> int:
    """Bytes of the LoRA and the adapters that training a decoder with these settings makes."""
    full = settings_with_defaults(JobKind.FINE_TUNE, settings, RootKind.DECODER)
    rank, chosen = int(full["lora"]), LORA_PROJECTIONS[full["projections"]]
    trained = {name: shape.projections[name] for name in chosen if name in shape.projections}
    numbers = rank * sum(out for _, out in trained.values())
    for names in SHARED_INPUTS:
        if readers := [trained[name] for name in names if name in trained]:
            numbers += readers[0][0] * _columns(len(readers) * rank)
    hidden = shape.projections["output"][1]
    numbers += sum(hidden * (_columns(int(full[name])) + int(full[name])) for name in ADAPTER_SPECS)
    return PET_BYTES * shape.layers * numbers


def _columns(ranks: int) -> int:
    return COLUMN_MULTIPLE * ceil(ranks / COLUMN_MULTIPLE)


def _pet(shape: UpperLayers, full: Mapping[str, Any]) -> int:
    """PET parameters in one layer."""
    widths = [int(full[name]) for name in ("adapter", "output_adapter") if full[name]]
    adapters = sum(2 * width * shape.hidden + width + shape.hidden for width in widths)
    lora = int(full["lora"]) * sum(into + out for into, out in shape.maps)
    biases = sum(out for _, out in shape.maps) if full["biases"] else 0
    return adapters + lora + biases + (4 * shape.hidden if full["norms"] else 0)


def _head(shape: UpperLayers, dataset: Dataset, full: Mapping[str, Any]) -> int:
    uses_mean = dataset.task not in TOKEN_TASKS and full["pooling"] == "cls_mean"
    width = 2 * shape.hidden if uses_mean else shape.hidden
    return _outputs(dataset) * (width + 1)


def _outputs(dataset: Dataset) -> int:
    """The outputs of the head. Its labels are those of the train split."""
    if dataset.task in (Task.REGRESSION, Task.QUESTION_ANSWERING):
        return len(dataset.labels)
    train = dataset.report.get("splits", {}).get("train", {})
    kinds = len(train.get("labels", dataset.labels))
    return 1 + 2 * kinds if dataset.task == Task.TAGGING else kinds
