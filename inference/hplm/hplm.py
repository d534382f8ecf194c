"""An hPLM: task, labels, PET and head, with its files and its size limits."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import torch

from inference.errors import HplmError
from inference.hplm.artifact_files import (
    FORMAT,
    read_artifact_json,
    read_weights,
    select_prefix,
    write_json,
    write_weights,
)
from inference.hplm.heads import Activation, Head, Pooling
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.text.outputs import HPLM_FILE
from inference.text.tasks import DEFAULT_THRESHOLD, EMBEDDING, ENCODER_TASKS, FIXED_LABELS, PER_TOKEN, Task

WEIGHTS_FILE = "hplm.safetensors"


@dataclass(frozen=True, slots=True)
class Hplm:
    """What a fine-tuned model adds to its root.

    labels: names of the head's outputs: classes; IOB2 tags ("O", "B-x", "I-x"); "value" of a regression;
    "start" and "end" of question answering; none of embeddings. pairs: inputs have two texts. threshold: the
    probability from which a label of a multi-label model is predicted. metadata: metadata of the training,
    stored unchanged.
    """

    task: Task
    labels: tuple[str, ...]
    pet: PetWeights
    head: Head
    pairs: bool = False
    threshold: float = DEFAULT_THRESHOLD
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.task not in ENCODER_TASKS:
            raise HplmError("corrupt_artifact", f"unknown task {self.task!r}")
        if len(self.labels) != self.head.num_labels or len(set(self.labels)) != len(self.labels):
            raise HplmError(
                "corrupt_artifact", f"{len(self.labels)} labels for a head of {self.head.num_labels}"
            )
        if (self.task == EMBEDDING) is bool(self.labels):
            raise HplmError("corrupt_artifact", f"{len(self.labels)} labels of {self.task}")
        if self.labels != FIXED_LABELS.get(self.task, self.labels):
            raise HplmError("corrupt_artifact", f"labels of {self.task} are not {', '.join(self.labels)}")
        if self.head.reading.per_token != (self.task in PER_TOKEN):
            raise HplmError("corrupt_artifact", f"a head that reads {self.head.pooling} for {self.task}")
        if self.head.hidden != self.pet.shape.hidden:
            raise HplmError("corrupt_artifact", "head and PET differ in the hidden size")

    @classmethod
    def of_embeddings(cls, shape: UpperShape) -> "Hplm":
        """A model that gives the embeddings of a root with upper layers of this shape, and nothing else: its
        PET changes nothing, and its head has no outputs."""
        head = Head(torch.zeros(0, shape.hidden), torch.zeros(0))
        return cls(EMBEDDING, (), PetWeights.initial(PetSpec(), shape), head)

    @property
    def table_only(self) -> bool:
        """Whether it answers at the level TABLE alone: its head reads states at the cut, and was fitted on
        looked-up ones."""
        return self.head.reading.cut

    @property
    def bytes(self) -> int:
        """The size of its PET and head in memory."""
        return self.pet.bytes + sum(value.nbytes for value in self.head.tensors().values())

    def to(self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False) -> "Hplm":
        """A copy on `device`: the PET in `dtype`, the head in float32."""
        return replace(
            self,
            pet=self.pet.to(device, dtype, non_blocking=non_blocking),
            head=self.head.to(device, non_blocking=non_blocking),
        )

    def save(self, folder: Path, dtype: torch.dtype = torch.float16) -> None:
        """Write hplm.json and hplm.safetensors into `folder`, the PET in `dtype`.

        Raises HplmError(training_diverged) for weights that are not finite in `dtype`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        pet = self.pet
        for name, value in pet.weights.items():
            if not bool(torch.isfinite(value.to(dtype)).all()):
                raise HplmError("training_diverged", f"{name} has values that are not finite in {dtype}")
        spec = pet.spec.to_json()
        metadata = {
            **self.metadata,
            "format": FORMAT,
            "task": self.task,
            "labels": list(self.labels),
            "pairs": self.pairs,
            "threshold": self.threshold,
            "pooling": self.head.pooling,
            "table_only": self.table_only,
            **({"activation": self.head.activation} if self.head.inner else {}),
            "pet": spec,
            "shape": {"layers": pet.shape.layers, "hidden": pet.shape.hidden, "inner": pet.shape.inner},
            "dtype": str(dtype).removeprefix("torch."),
        }
        write_json(folder / HPLM_FILE, metadata)
        head = {f"head.{name}": value for name, value in self.head.tensors().items()}
        write_weights(folder / WEIGHTS_FILE, {f"pet.{k}": v for k, v in pet.stored(dtype).items()} | head)

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype | None = torch.float32
    ) -> "Hplm":
        """Read what `save` wrote; dtype: of the PET; None: everything as it is stored, on the CPU.

        Raises HplmError(corrupt_artifact) if a file is missing, damaged or inconsistent.
        """
        metadata = read_artifact_json(folder / HPLM_FILE)
        weights = read_weights(folder / WEIGHTS_FILE)
        labels, spec, shape = metadata.get("labels"), metadata.get("pet"), metadata.get("shape")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise HplmError("corrupt_artifact", f"{HPLM_FILE}: labels are not a list of strings")
        if not isinstance(spec, dict) or not isinstance(shape, dict):
            raise HplmError("corrupt_artifact", f"{HPLM_FILE}: pet and shape must be objects")
        threshold = metadata.get("threshold")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise HplmError("corrupt_artifact", f"{HPLM_FILE}: threshold must be a number from 0 to 1")
        pet = PetWeights.from_stored(spec, shape, select_prefix(weights, "pet."))
        pooling, activation = metadata.get("pooling"), metadata.get("activation")
        head = Head.from_tensors(
            select_prefix(weights, "head."), cast("Pooling", pooling), cast("Activation | None", activation)
        )
        hplm = cls(
            cast("Task", metadata.get("task")),
            tuple(labels),
            pet,
            head,
            bool(metadata.get("pairs")),
            float(threshold),
            metadata,
        )
        return hplm if dtype is None else hplm.to(device, dtype)


MAX_RANK: Final = 256
MAX_ADAPTER_WIDTH: Final = 1024
MAX_OUTPUTS: Final = 2048


def check_output_count(outputs: int) -> None:
    """Raise HplmError(corrupt_artifact) if a head has more than MAX_OUTPUTS outputs."""
    if outputs > MAX_OUTPUTS:
        raise HplmError(
            "corrupt_artifact", f"a head of {outputs:,} outputs; at most {MAX_OUTPUTS:,} are served"
        )


def check_sizes(hplm: Hplm) -> None:
    """Raise HplmError(corrupt_artifact) if the head, an adapter or a LoRA rank is too large."""
    check_output_count(hplm.head.num_labels)
    spec = hplm.pet.spec
    if spec.lora > MAX_RANK:
        raise HplmError("corrupt_artifact", f"a rank of {spec.lora:,}; at most {MAX_RANK} is served")
    if (width := max(spec.adapter, spec.output_adapter)) > MAX_ADAPTER_WIDTH:
        raise HplmError("corrupt_artifact", f"an adapter of width {width:,}; at most {MAX_ADAPTER_WIDTH:,}")
