"""Trains LoRAs of a decoder by PEFT and the Trainer of transformers, in a process of an environment that has
them.

`python -m benchmarks.serving.peers.lora_program SETTINGS` (`LoraSettings`, as JSON) answers

    {"rows": [{"input_ids": [5, 9, 2], "learned": [false, true]}], "learning_rate": 2e-4, "seed": 0,
     "out": "runs"}
    {"folders": ["runs/checkpoint-2"], "cpu_seconds": 61.0, "versions": {"peft": "0.21.2"}}

folders: PEFT's own, one for each epoch, in their order. cpu_seconds: of the training alone. See `json_lines`.
"""

import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.serving.peers.generators import PROJECTIONS
from benchmarks.serving.peers.json_lines import serve, versions

IGNORED: Final = -100
"""The label of a token that is not learned."""
ARGUMENTS_FILE: Final = "training_args.bin"
"""A pickle, with which the product refuses a folder."""
WARMUP_SHARE: Final = 0.06
PACKAGES: Final = ("torch", "transformers", "peft", "accelerate")
Row = Mapping[str, list[Any]]
"""input_ids: T + 1 tokens. learned: T truth values, whether the token after this one is learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSettings:
    """checkpoint: a folder of transformers. rank, alpha: of the LoRA, on all projections of every layer.
    rows: of a batch."""

    checkpoint: str
    rank: int
    alpha: float
    epochs: int
    rows: int
    threads: int = 1


def labels_of(row: Row) -> list[int]:
    """The labels of a row's tokens, which transformers shifts by one."""
    learned = [False, *row["learned"]]
    return [
        token if is_learned else IGNORED for token, is_learned in zip(row["input_ids"], learned, strict=True)
    ]


def padded(rows: Sequence[Row]) -> dict[str, list[list[int]]]:
    """A batch of rows as transformers takes it: all as long as the longest."""
    longest = max(len(row["input_ids"]) for row in rows)
    missing = [longest - len(row["input_ids"]) for row in rows]
    return {
        "input_ids": [row["input_ids"] + [0] * more for row, more in zip(rows, missing, strict=True)],
        "attention_mask": [
            [1] * len(row["input_ids"]) + [0] * more for row, more in zip(rows, missing, strict=True)
        ],
        "labels": [labels_of(row) + [IGNORED] * more for row, more in zip(rows, missing, strict=True)],
    }


class Bench:
    """Trains a LoRA for each request, from the start."""

    def __init__(self, settings: LoraSettings) -> None:
        self._settings = settings
        self._torch, self._transformers, self._peft = map(
            importlib.import_module, ("torch", "transformers", "peft")
        )
        self._torch.set_num_threads(settings.threads)

    def ready(self) -> dict[str, Any]:
        """Which versions stand here."""
        return {"versions": dict(versions(PACKAGES))}

    def answer(self, **request: Any) -> dict[str, Any]:
        """Train on the rows."""
        out = Path(request["out"])
        self._transformers.set_seed(request["seed"])
        trainer = self._transformers.Trainer(
            model=self._model(),
            args=self._arguments(out, request["learning_rate"], request["seed"]),
            train_dataset=request["rows"],
            data_collator=self._collate,
        )
        before = time.process_time()
        trainer.train()
        spent = time.process_time() - before
        folders = sorted(out.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
        for folder in folders:
            (folder / ARGUMENTS_FILE).unlink()
        return {"folders": list(map(str, folders)), "cpu_seconds": spent} | self.ready()

    def _model(self) -> Any:
        settings = self._settings
        base = self._transformers.AutoModelForCausalLM.from_pretrained(
            settings.checkpoint, dtype=self._torch.float32
        )
        config = self._peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=list(PROJECTIONS),
            task_type="CAUSAL_LM",
        )
        return self._peft.get_peft_model(base, config)

    def _arguments(self, out: Path, learning_rate: float, seed: int) -> Any:
        """The Trainer's defaults, with a warm-up as the product's, and with little padding."""
        return self._transformers.TrainingArguments(
            output_dir=str(out),
            per_device_train_batch_size=self._settings.rows,
            num_train_epochs=self._settings.epochs,
            learning_rate=learning_rate,
            warmup_steps=WARMUP_SHARE,
            train_sampling_strategy="group_by_length",
            seed=seed,
            save_strategy="epoch",
            save_only_model=True,
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )

    def _collate(self, rows: Sequence[Row]) -> dict[str, Any]:
        return {name: self._torch.tensor(values) for name, values in padded(rows).items()}


def main() -> int:
    """Answer until the input ends."""
    return serve(lambda: Bench(LoraSettings(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    sys.exit(main())
