"""The input and output tensors of a model, by its task."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inference.open_inference.tensors import Datatype, Tensor
from inference.text.tasks import QUESTION_ANSWERING
from inference.text.token_levels import QUESTION, TEXTS

Results = Sequence[Mapping[str, Any]]
VARIABLE: Final = -1
"""A dimension of variable size."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output tensor: its name and type, and how to get its values from the results."""

    name: str
    datatype: Datatype
    values: Callable[[Results], Sequence[Any]]
    dimensions: int = 1

    def tensor(self, results: Results) -> Tensor:
        """The tensor of these results, at least one."""
        values = self.values(results)
        rows = len(results)
        shape = (rows, len(values) // rows) if self.dimensions > 1 else (len(values),)
        return Tensor(self.name, self.datatype, shape, values)


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors of a model. The inputs are the fields of the infer API in upper case."""

    fields: tuple[str, ...]
    outputs: tuple[Output, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(field.upper() for field in self.fields)

    def to_json(self) -> dict[str, Any]:
        """The inputs and outputs as in the metadata of a model."""
        inputs = [{"name": name, "datatype": "BYTES", "shape": [VARIABLE]} for name in self.inputs]
        outputs = [
            {"name": output.name, "datatype": output.datatype, "shape": [VARIABLE] * output.dimensions}
            for output in self.outputs
        ]
        return {"inputs": inputs, "outputs": outputs}


def signature_of(task: str, *, pairs: bool) -> Signature:
    """The signature of a model of this task. ``pairs``: its inputs have two texts."""
    if task == QUESTION_ANSWERING:
        return Signature(QUESTION, _OUTPUTS[task])
    return Signature(TEXTS if pairs else TEXTS[:1], _OUTPUTS[task])


def _each(field: str) -> Callable[[Results], Sequence[Any]]:
    return lambda results: [result[field] for result in results]


def _as_json(field: str) -> Callable[[Results], Sequence[Any]]:
    return lambda results: [json.dumps(result[field], ensure_ascii=False) for result in results]


def _scores(results: Results) -> Sequence[Any]:
    return [score for result in results for score in result["scores"].values()]


_CLASSES: Final = Output("CLASSES", "BYTES", lambda results: list(results[0]["scores"]))
_SCORES: Final = Output("SCORES", "FP32", _scores, dimensions=2)
_TRUNCATED: Final = Output("TRUNCATED", "BOOL", _each("truncated"))
_LEVEL: Final = Output("LEVEL", "BYTES", _each("level"))
_SURE: Final = (_TRUNCATED, _LEVEL, Output("CONFIDENCE", "FP32", _each("confidence")))
_OUTPUTS: Final[Mapping[str, tuple[Output, ...]]] = {
    "classification": (Output("LABEL", "BYTES", _each("label")), _SCORES, _CLASSES, *_SURE),
    "multilabel": (Output("LABELS", "BYTES", _as_json("labels")), _SCORES, _CLASSES, *_SURE),
    "regression": (Output("VALUE", "FP64", _each("value")), _TRUNCATED, _LEVEL),
    "tagging": (Output("SPANS", "BYTES", _as_json("spans")), *_SURE),
    QUESTION_ANSWERING: (
        Output("ANSWER", "BYTES", _each("answer")),
        Output("START", "INT64", _each("start")),
        Output("END", "INT64", _each("end")),
        Output("SCORE", "FP32", _each("score")),
        *_SURE,
    ),
}
