"""The task head of a checkpoint, and the model that it makes: an existing Hugging Face model, as it is."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm.adapter_io.task_heads import (
    FAMILY_HEADS,
    PROBLEM_TYPES,
    TOKEN_HEADS,
    label_problem,
)
from inference.hplm.architecture import Architecture
from inference.hplm.artifact_files import read_json, read_weights, to_float32
from inference.hplm.checkpoint import weight_files
from inference.hplm.checkpoint_config import config_number, unsupported
from inference.hplm.families import family_for
from inference.hplm.heads import ACTIVATIONS, INNER_NORM_EPS, Activation, Head, HeadLayer, Pooling
from inference.hplm.hplm import Hplm, check_output_count
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.hplm.sentence_folder import MODULES_FILE
from inference.text.tasks import (
    CLASSIFICATION,
    FIXED_LABELS,
    PER_TOKEN,
    QUESTION_ANSWERING,
    REGRESSION,
    TAGGING,
    Task,
)

TEXT_ARCHITECTURE: Final = "ForSequenceClassification"
TOKEN_ARCHITECTURES: Final[Mapping[str, Task]] = {
    "ForTokenClassification": TAGGING,
    "ForQuestionAnswering": QUESTION_ANSWERING,
}
_POOLINGS: Final[Mapping[str, Pooling]] = {"cls": "cls", "mean": "mean"}


def checkpoint_hplm(
    folder: Path, layers_below_cut: Callable[[int], int], *, pairs: bool = False
) -> Hplm | None:
    """The model of a checkpoint's task head: an empty PET in the upper layers, and the head. Of a folder of
    sentence-transformers, one that gives embeddings.

    None if the checkpoint is no such folder and has no head for whole texts or for tokens. layers_below_cut:
    of how many layers how many are below the cut. pairs: whether it reads two texts, which no checkpoint
    says. Its answers at the level FULL are those of transformers. Raises
    HplmError(unsupported_checkpoint) for a head that cannot be served, and why.
    """
    raw = read_json(folder / "config.json", missing="checkpoint_not_found", damaged="unsupported_checkpoint")
    family = family_for(raw)
    task, architecture = _task(raw), family.parse(raw)
    upper = architecture.layers - layers_below_cut(architecture.layers)
    shape = UpperShape(upper, architecture.hidden, architecture.inner)
    if task is None:
        return Hplm.of_embeddings(shape) if (folder / MODULES_FILE).is_file() else None
    try:
        head = _read_head(_outside_tensors(folder, family.prefix), task, architecture, raw)
        task = _text_task(raw, head.num_labels) if task not in PER_TOKEN else task
        labels = _labels(raw, task, head.num_labels)
        pet = PetWeights(PetSpec(), shape, {})
        return Hplm(task, labels, pet, head, pairs=pairs or task == QUESTION_ANSWERING)
    except HplmError as error:
        raise HplmError("unsupported_checkpoint", error.message) from error


def _task(raw: Mapping[str, Any]) -> Task | None:
    """The task by the architecture that a config.json names; of a head for whole texts any of its tasks."""
    names = raw.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    if name.endswith(TEXT_ARCHITECTURE):
        return CLASSIFICATION
    return next((task for end, task in TOKEN_ARCHITECTURES.items() if name.endswith(end)), None)


def _text_task(raw: Mapping[str, Any], outputs: int) -> Task:
    """The task of a head for whole texts, by its ``problem_type`` or its number of outputs."""
    problem = raw.get("problem_type")
    if problem is not None and problem not in PROBLEM_TYPES:
        raise unsupported(f"problem_type {problem!r} is not one of {', '.join(PROBLEM_TYPES)}")
    task = PROBLEM_TYPES[problem] if problem else REGRESSION if outputs == 1 else CLASSIFICATION
    if task == REGRESSION and outputs > 1:
        raise _unsupported(f"predicts {outputs} numbers; a regression has one")
    return cast("Task", task)


def _outside_tensors(folder: Path, prefix: str) -> dict[str, Tensor]:
    """The tensors of a checkpoint in float32, by their names without the encoder's prefix."""
    found: dict[str, Tensor] = {}
    for file in weight_files(folder):
        stored = read_weights(file, missing="unsupported_checkpoint", damaged="unsupported_checkpoint")
        found |= {name.removeprefix(prefix): value for name, value in stored.items()}
    return found


def _read_head(
    weights: Mapping[str, Tensor], task: Task, architecture: Architecture, raw: Mapping[str, Any]
) -> Head:
    """The head of the family's task model, in float32."""
    names, hidden = FAMILY_HEADS[architecture.family], architecture.hidden
    per_token = task in PER_TOKEN
    output = TOKEN_HEADS[task] if per_token and not names.of_tokens else names.output
    weight = weights.get(f"{output}.weight")
    if weight is None or weight.dim() != 2 or weight.shape[1] != hidden:
        raise _unsupported(f"lacks {output}.weight, [outputs, {hidden}]")
    check_output_count(len(weight))
    own = _tensors(weights, output, (len(weight), hidden))
    if per_token and not names.of_tokens:
        return Head(*own, "token")
    activation = str(raw.get(names.activation_field, names.activation))
    if activation not in ACTIVATIONS:
        raise unsupported(
            f"{names.activation_field} {activation!r} is not supported in a task head; "
            f"{', '.join(ACTIVATIONS)} are"
        )
    norm = None
    if names.norm:
        if (eps := config_number(raw, "norm_eps", INNER_NORM_EPS)) != INNER_NORM_EPS:
            raise unsupported(f"norm_eps {eps} is not supported in a task head, only {INNER_NORM_EPS}")
        norm = _tensors(weights, names.norm, (hidden,))
    inner = HeadLayer(*_tensors(weights, names.inner, (hidden, hidden)), cast("Activation", activation), norm)
    return Head(*own, "token" if per_token else _pooling(raw, names.pooling_field), inner)


def _tensors(weights: Mapping[str, Tensor], module: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The weight of that shape and the bias of a linear layer or a norm; zeros if it has no bias."""
    found = to_float32(
        {end: weights[name] for end in ("weight", "bias") if (name := f"{module}.{end}") in weights}
    )
    bias = found.get("bias", torch.zeros(shape[0]))
    if "weight" not in found or found["weight"].shape != shape or bias.shape != shape[:1]:
        raise _unsupported(f"lacks {module}.weight, {list(shape)}, or its bias has another size")
    return found["weight"], bias


def _pooling(raw: Mapping[str, Any], field: str) -> Pooling:
    """What of a text the head reads."""
    given = str(raw.get(field, "cls"))
    if given not in _POOLINGS:
        raise unsupported(f"{field} {given!r} is not supported; {', '.join(_POOLINGS)} are")
    return _POOLINGS[given]


def _labels(raw: Mapping[str, Any], task: Task, outputs: int) -> tuple[str, ...]:
    """The names of the outputs by ``id2label``; numbered as transformers does without one."""
    if task in FIXED_LABELS:
        return FIXED_LABELS[task]
    named = raw.get("id2label")
    if named is None:
        named = {str(number): f"LABEL_{number}" for number in range(outputs)}
    if not isinstance(named, Mapping) or named.keys() != {str(number) for number in range(outputs)}:
        raise unsupported(f"id2label must name the outputs 0 to {outputs - 1} of the task head")
    labels = tuple(str(named[str(number)]) for number in range(outputs))
    if problem := label_problem(task, labels, outputs):
        raise unsupported(f"id2label: {problem}")
    return labels


def _unsupported(message: str) -> HplmError:
    return HplmError("unsupported_checkpoint", f"the task head {message}")
