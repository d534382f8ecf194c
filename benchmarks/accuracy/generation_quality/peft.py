"""PEFT as a trainer beside the product's: started in an environment of its own, told rows of tokens."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.serving.peers.lora_program import LoraSettings
from benchmarks.serving.peers.process import PeerProcess
from workers.training.generative.fine_tune import GenerativeSettings
from workers.training.generative.packing import TrainingSequence

PROGRAM: Final = "benchmarks.serving.peers.lora_program"
PATIENCE_S: Final = 24 * 3600.0
"""A training of the whole dataset takes hours."""


@dataclass(frozen=True, slots=True)
class PeftEpochs:
    """The folders that PEFT saved after each epoch, and the processor seconds of the training."""

    folders: list[Path]
    cpu_seconds: float
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class PeftTrainer:
    """PEFT in the environment of this Python."""

    python: Path
    threads: int

    def train(
        self,
        checkpoint: Path,
        sequences: Sequence[TrainingSequence],
        settings: GenerativeSettings,
        *,
        rows: int,
        out: Path,
    ) -> PeftEpochs:
        """Train a LoRA in all layers, with the rank, alpha, learning rate, epochs and seed of the settings.

        rows: of a batch. Raises PeerFailed where the program does.
        """
        told = LoraSettings(
            checkpoint=str(checkpoint),
            rank=settings.lora,
            alpha=2.0 * settings.lora if settings.alpha is None else settings.alpha,
            epochs=settings.epochs,
            rows=rows,
            threads=self.threads,
        )
        process = PeerProcess(
            self.python, PROGRAM, json.dumps(asdict(told)), threads=self.threads, patience_s=PATIENCE_S
        )
        try:
            process.receive()
            process.send(
                {
                    "rows": [row_of(one) for one in sequences],
                    "learning_rate": settings.learning_rate,
                    "seed": settings.seed,
                    "out": str(out),
                }
            )
            answer = process.receive()
        finally:
            process.end()
        return PeftEpochs(list(map(Path, answer["folders"])), answer["cpu_seconds"], answer["versions"])


def row_of(sequence: TrainingSequence) -> dict[str, list[Any]]:
    """A row as the program is sent it."""
    return {"input_ids": sequence.ids.tolist(), "learned": sequence.learned.tolist()}
