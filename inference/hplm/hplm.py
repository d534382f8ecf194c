"""One hPLM as it is stored: task, labels, adapter and head (a few MB)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch

from inference.hplm.adapters import AdapterWeights
from inference.hplm.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.json_files import FORMAT, read_artifact_json, write_json
from inference.hplm.weights import read_weights, write_weights

Task = Literal["classification", "tagging"]
CLASSIFICATION: Task = "classification"
TAGGING: Task = "tagging"
JSON_FILE = "hplm.json"
WEIGHTS_FILE = "hplm.safetensors"


@dataclass(frozen=True, slots=True)
class Hplm:
    """`labels` are class names, or IOB2 tags ("O", "B-x", "I-x"), in the order of the head's rows.

    `about` is whatever else its training recorded (metrics, seed, settings); it is stored with it and not
    interpreted.
    """

    task: Task
    labels: tuple[str, ...]
    adapter: AdapterWeights
    head: Head
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.task not in (CLASSIFICATION, TAGGING):
            raise HplmError("corrupt_artifact", f"unknown task {self.task!r}")
        if len(self.labels) != self.head.labels or len(set(self.labels)) != len(self.labels):
            raise HplmError("corrupt_artifact", f"{len(self.labels)} labels for a head of {self.head.labels}")
        if self.head.weight.shape[1] != self.adapter.hidden:
            raise HplmError("corrupt_artifact", "head and adapter differ in the hidden size")

    @property
    def bytes(self) -> int:
        """Memory that its adapter and head take."""
        return self.adapter.bytes + sum(value.nbytes for value in self.head.tensors().values())

    def to(self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False) -> "Hplm":
        """A copy there: adapter in `dtype`, head in fp32."""
        adapter = self.adapter.to(device, dtype, non_blocking=non_blocking)
        return Hplm(
            self.task, self.labels, adapter, self.head.to(device, non_blocking=non_blocking), self.about
        )

    def save(self, folder: Path) -> None:
        """Write hplm.json and hplm.safetensors into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            **self.about,
            "format": FORMAT,
            "task": self.task,
            "labels": list(self.labels),
            "adapter_size": self.adapter.size,
            "layers": self.adapter.layers,
            "hidden": self.adapter.hidden,
            "dtype": str(self.adapter.down_w.dtype).removeprefix("torch."),
        }
        write_json(folder / JSON_FILE, about)
        adapter = {f"adapter.{name}": value for name, value in self.adapter.tensors().items()}
        head = {f"head.{name}": value for name, value in self.head.tensors().items()}
        write_weights(folder / WEIGHTS_FILE, adapter | head)

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "Hplm":
        """Read what `save` wrote; HplmError(corrupt_artifact) when anything is absent, damaged or
        contradictory."""
        about = read_artifact_json(folder / JSON_FILE)
        weights = read_weights(folder / WEIGHTS_FILE)
        labels = about.get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise HplmError("corrupt_artifact", f"{JSON_FILE}: labels are not a list of strings")
        adapter = AdapterWeights.from_tensors(_part(weights, "adapter."))
        head = Head.from_tensors(_part(weights, "head."))
        return cls(cast("Task", about.get("task")), tuple(labels), adapter, head, about).to(device, dtype)


def _part(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
