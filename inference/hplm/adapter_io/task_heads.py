"""Converts the heads of transformers' task models to `Head`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from torch import Tensor

from inference.hplm.adapter_io.adapter_folder import AdapterRequest, read_adapter_json, unsupported_adapter
from inference.hplm.artifact_files import read_weights, to_float32
from inference.hplm.heads import Activation, Head, HeadLayer
from inference.hplm.hplm import Hplm, check_output_count
from inference.hplm.pets.weights import PetWeights
from inference.hplm.root import POOLER_FILE
from inference.hplm.root_config import RootConfig
from inference.text.tasks import (
    CLASSIFICATION,
    FIXED_LABELS,
    MULTILABEL,
    PER_TOKEN,
    QUESTION_ANSWERING,
    REGRESSION,
    TAGGING,
    Task,
)

TEXT_TASKS: Final = (CLASSIFICATION, MULTILABEL, REGRESSION)
PROBLEM_TYPES: Final = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTILABEL,
    "regression": REGRESSION,
}
"""Tasks by the ``problem_type`` of a config.json."""
MODEL_CONFIG_FILE: Final = "config.json"
"""The config.json of the task model, which names the labels."""
OUTSIDE_TAG: Final = "O"
MAX_LABEL_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class TextHead:
    """The names of a family's hidden layer and output layer for whole texts, and the activation between.

    activation_field, pooling_field: of a config.json, which may name another activation, and what of a text
    the head reads. norm: the layer norm behind the activation. of_tokens: whether a head for tokens has the
    hidden layer, too.
    """

    inner: str
    activation: Activation
    output: str
    activation_field: str = ""
    pooling_field: str = ""
    norm: str = ""
    of_tokens: bool = False


POOLER: Final = "pooler.dense"
_ROBERTA_HEAD: Final = TextHead("classifier.dense", "tanh", "classifier.out_proj")
_POOLER_HEAD: Final = TextHead(POOLER, "tanh", "classifier")
FAMILY_HEADS: Final[Mapping[str, TextHead]] = {
    "bert": _POOLER_HEAD,
    "roberta": _ROBERTA_HEAD,
    "xlm-roberta": _ROBERTA_HEAD,
    "distilbert": TextHead("pre_classifier", "relu", "classifier"),
    "electra": TextHead("classifier.dense", "gelu", "classifier.out_proj"),
    "mpnet": _ROBERTA_HEAD,
    "deberta-v2": TextHead(POOLER, "gelu", "classifier", activation_field="pooler_hidden_act"),
    "modernbert": TextHead(
        "head.dense",
        "gelu",
        "classifier",
        activation_field="classifier_activation",
        pooling_field="classifier_pooling",
        norm="head.norm",
        of_tokens=True,
    ),
    "nomic_bert": _POOLER_HEAD,
    "gte": _POOLER_HEAD,
}
ADAPTER_FAMILIES: Final = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "mpnet")
"""Others fuse maps, or their task models change more than the same places here."""


def check_family(config: RootConfig) -> None:
    """Raise HplmError(invalid_archive) for a root whose family's adapters are not supported."""
    if config.family not in ADAPTER_FAMILIES:
        raise unsupported_adapter(
            f"adapters of other libraries are supported for {', '.join(ADAPTER_FAMILIES)}; this root is of "
            f"{config.family}. Use the archive format, or train the model here"
        )


TOKEN_HEADS: Final[Mapping[str, str]] = {TAGGING: "classifier", QUESTION_ANSWERING: "qa_outputs"}


def head_modules(task: Task, config: RootConfig) -> tuple[str, ...]:
    """The names of the head's linear layers, without the encoder's prefix."""
    names = FAMILY_HEADS[config.family]
    return (TOKEN_HEADS[task],) if task in PER_TOKEN else (names.inner, names.output)


def head_weights(
    weights: Mapping[str, Tensor], task: Task, config: RootConfig, root: Path
) -> dict[str, Tensor]:
    """The weights and biases of the head's linear layers: those of `weights`, else the root's pooler.

    `weights` are outside the encoder, by names without its prefix. Raises HplmError if one is missing.
    """
    modules = head_modules(task, config)
    names = [f"{module}.{part}" for module in modules for part in ("weight", "bias")]
    if POOLER in modules and not all(f"{POOLER}.{part}" in weights for part in ("weight", "bias")):
        weights = {**_pooler(root), **weights}
    for module in modules:
        if any(f"{module}.{part}" not in weights for part in ("weight", "bias")):
            raise unsupported_adapter(
                f"the head layer {module} is missing. Save the adapter with {module.partition('.')[0]!r} in "
                "modules_to_save"
            )
    return {name: weights[name] for name in names}


def read_head(weights: Mapping[str, Tensor], task: Task, config: RootConfig) -> Head:
    """The head with the weights of `head_weights`."""
    *inner, output = (
        (weights[f"{module}.weight"], weights[f"{module}.bias"]) for module in head_modules(task, config)
    )
    if not inner:
        return Head(*output, "token")
    return Head(*output, "cls", HeadLayer(*inner[0], FAMILY_HEADS[config.family].activation))


def _pooler(root: Path) -> dict[str, Tensor]:
    """The checkpoint's pooler, which BERT's task models do not train together with an adapter."""
    if not (root / POOLER_FILE).is_file():
        raise unsupported_adapter(
            "the head uses the pooler, but this root was registered without one. Save the adapter with "
            'modules_to_save=["classifier", "pooler"], or ask an administrator to register the root again'
        )
    return {f"{POOLER}.{name}": value for name, value in to_float32(read_weights(root / POOLER_FILE)).items()}


def read_model_config(request: AdapterRequest) -> dict[str, Any]:
    """The config.json of the task model, if the adapter's folder has one."""
    file = request.folder / MODEL_CONFIG_FILE
    return read_adapter_json(file) if file.is_file() else {}


def imported_hplm(
    pet: PetWeights,
    head: Head,
    task: Task,
    request: AdapterRequest,
    *,
    problem: Any = None,
    id2label: Any = None,
) -> Hplm:
    """The hPLM of an adapter's PET and head.

    `task` is that of a head for tokens; a head for whole texts may have another, by the request or by the
    `problem_type` of transformers. `id2label`: the names of the outputs by their number, if it is a mapping.
    """
    if head.hidden != pet.shape.hidden:
        raise unsupported_adapter(
            f"the head expects a hidden size of {head.hidden}, but this root has {pet.shape.hidden}"
        )
    is_of_tokens = task in PER_TOKEN
    task = _token_task(request, task) if is_of_tokens else _text_task(request, head.num_labels, problem)
    named = id2label if isinstance(id2label, Mapping) else {}
    labels = _output_labels(request, task, head.num_labels, named)
    return Hplm(task, labels, pet, head, pairs=request.pairs or task == QUESTION_ANSWERING)


def _text_task(request: AdapterRequest, outputs: int, problem: Any) -> Task:
    """The task of a head for whole texts: the requested one, or that of the model's config, or that of its
    number of outputs."""
    found = (
        request.task or PROBLEM_TYPES.get(str(problem)) or (REGRESSION if outputs == 1 else CLASSIFICATION)
    )
    if found not in TEXT_TASKS:
        raise unsupported_adapter(
            f"the head makes one prediction for a whole text, so the task cannot be {found}. Choose one of "
            f"{', '.join(TEXT_TASKS)}"
        )
    return cast("Task", found)


def _token_task(request: AdapterRequest, task: Task) -> Task:
    """The task of a head for tokens."""
    if request.task:
        raise unsupported_adapter(
            f"the head makes a prediction for each token ({task}), so the task cannot be {request.task}. "
            "Leave the task empty"
        )
    return task


def _output_labels(
    request: AdapterRequest, task: Task, outputs: int, id2label: Mapping[str, Any]
) -> tuple[str, ...]:
    """The names of the outputs: those of the task, the requested ones, or those of the model in `id2label`.

    Classes of texts without names are numbered, as transformers does.
    """
    check_output_count(outputs)
    if task in FIXED_LABELS:
        labels = FIXED_LABELS[task]
    elif request.labels:
        labels = request.labels
    elif id2label:
        labels = tuple(str(id2label.get(str(number), "")) for number in range(outputs))
    elif task == TAGGING:
        raise unsupported_adapter(
            f"its {outputs} tags have no names. Set labels, in the order of the outputs"
        )
    else:
        labels = tuple(f"LABEL_{number}" for number in range(outputs))
    if problem := label_problem(task, labels, outputs):
        raise unsupported_adapter(problem)
    return labels


def label_problem(task: Task, labels: Sequence[str], outputs: int) -> str:
    """Why these cannot be the names of a head's outputs, in a sentence; "" if they can."""
    if len(labels) != outputs or len(set(labels)) != outputs or not all(map(_is_name, labels)):
        return (
            f"the head has {outputs} outputs and needs {outputs} different labels; {len(set(labels))} were "
            f"found. Labels must be printable, not blank, and have at most {MAX_LABEL_LENGTH} characters"
        )
    odd = [label for label in labels if task == TAGGING and not _is_tag(label)]
    return (
        f"{odd[0][:60]!r} is not a valid tag. Tags must be {OUTSIDE_TAG}, or start with B- or I-"
        if odd
        else ""
    )


def _is_name(label: str) -> bool:
    # Words of some languages, and emoji, differ in joiners, which are not printable.
    visible = label.translate({0x200C: None, 0x200D: None})
    return bool(visible.strip()) and visible.isprintable() and len(label) <= MAX_LABEL_LENGTH


def _is_tag(label: str) -> bool:
    return label == OUTSIDE_TAG or (label[:2] in ("B-", "I-") and len(label) > 2)
