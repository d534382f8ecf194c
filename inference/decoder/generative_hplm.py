"""What a fine-tuned generative model adds to its decoder: its task and its PET, with their files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inference.decoder.lora import LORA_FILE, DecoderLora
from inference.decoder.lora_layout import DecoderShape
from inference.errors import HplmError
from inference.hplm.artifact_files import FORMAT, read_artifact_json, write_json
from inference.text.outputs import HPLM_FILE
from inference.text.tasks import GENERATIVE_TASKS


@dataclass(frozen=True, slots=True)
class GenerativeHplm:
    """A generative model. task: "generation" or "chat". lora: its PET, LoRA or adapters or both."""

    task: str
    lora: DecoderLora

    def __post_init__(self) -> None:
        if self.task not in GENERATIVE_TASKS:
            raise HplmError("corrupt_artifact", f"{HPLM_FILE}: unknown generative task {self.task!r}")

    def save(self, folder: Path, shape: DecoderShape) -> None:
        """Write hplm.json and lora.safetensors into `folder`; `shape` is the decoder's."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / HPLM_FILE, {"format": FORMAT, "task": self.task})
        self.lora.save(folder / LORA_FILE, shape)

    @classmethod
    def load(cls, folder: Path, shape: DecoderShape) -> Self:
        """Read what `save` wrote, the LoRA in its stored dtype on the CPU.

        Raises HplmError(corrupt_artifact) if a file is missing or damaged, or does not fit the decoder.
        """
        metadata = read_artifact_json(folder / HPLM_FILE)
        return cls(str(metadata.get("task")), DecoderLora.load(folder / LORA_FILE, shape))
