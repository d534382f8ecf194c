"""Trains LoRAs by the product's job code and by PEFT, from the same tokens, and measures both alike."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rich.console import Console

from benchmarks.accuracy.generation_quality.peft import PeftTrainer
from benchmarks.accuracy.generation_quality.root import SharedRoot
from benchmarks.accuracy.generation_quality.scores import Answers
from benchmarks.accuracy.reporters import ConsoleReporter
from benchmarks.result_cache import KeptResults, bench_dir, cache_folder, fingerprint
from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.lora import LORA_FILE, DecoderLora
from inference.decoder.peft_conversion import generative_adapter_import
from workers.training.datasets import DatasetFiles
from workers.training.generative.fine_tune import GenerativeSettings, fine_tune_generative
from workers.training.generative.frozen_states import FrozenStates
from workers.training.generative.generation import Prompt, generate_answers, prompts_of_test
from workers.training.generative.lora_parameters import LoraParameters
from workers.training.generative.packing import TrainingSequence
from workers.training.generative.rows import GENERATION, read_rows
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.generative.training import GenerativeSplit, split_loss

HMI: Final = "HMI"
PEFT: Final = "PEFT"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who trains, with which peak learning rate, and how many of the lowest layers have no LoRA."""

    side: str
    learning_rate: float
    lower_layers: int = 0


@dataclass(frozen=True, slots=True)
class TrainedLora:
    """A LoRA of the epoch with the lowest dev loss. seconds: processor time of the training."""

    dev_loss: float
    epoch: int
    seconds: float


class Trainings:
    """Computes what earlier runs have not kept.

    settings: of the product's job; PEFT has the same rank, alpha, and rows of a batch, and `peft_epochs`.
    peft: None where it cannot be had. kept: the results.
    """

    def __init__(
        self,
        root: SharedRoot,
        files: DatasetFiles,
        settings: GenerativeSettings,
        console: Console,
        kept: KeptResults,
        peft: PeftTrainer | None = None,
        peft_epochs: int | None = None,
    ) -> None:
        self._root, self._files, self._peft = root, files, peft
        self._settings = {HMI: settings, PEFT: replace(settings, epochs=peft_epochs or settings.epochs)}
        self._kept, self._reporter = kept, ConsoleReporter(console)
        self._dev = self._sequences(files.dev)

    def train(self, candidate: Candidate, seed: int) -> TrainedLora:
        """Train this candidate, or read what was kept."""
        found = self._kept.get_or_compute(self._key(candidate, seed), lambda: self._train(candidate, seed))
        return TrainedLora(found["dev_loss"], found["epoch"], found["training_seconds"])

    def answer(self, candidate: Candidate, seed: int) -> Answers:
        """Greedy answers to the test prompts in float32, with all references of each."""
        key, prompts = self._test_key(candidate, seed), self._prompts()
        found = self._kept.get_or_compute(
            key, lambda: {"answers": self._texts(prompts, self._lora(candidate, seed))}
        )
        return Answers(found["answers"], [prompt.references for prompt in prompts])

    @property
    def rows_of_batch(self) -> int:
        """As many as the product packs into a batch on average."""
        tokens = fmean(map(len, self._sequences(self._files.train)))
        return max(1, round(self._settings[HMI].batch_tokens / tokens))

    def _key(self, candidate: Candidate, seed: int) -> dict[str, Any]:
        texts = [file.read_text(encoding="utf-8") for file in (self._files.train, self._files.dev)]
        settings = asdict(replace(self._settings[candidate.side], seed=seed))
        return {
            **asdict(candidate),
            "root": self._root.sha256,
            "rows": fingerprint({"rows": texts}),
            "settings": settings,
        }

    def _test_key(self, candidate: Candidate, seed: int) -> dict[str, Any]:
        rows = self._files.test.read_text(encoding="utf-8")
        return self._key(candidate, seed) | {"test": fingerprint({"rows": rows})}

    def _prompts(self) -> list[Prompt]:
        rows = read_rows(self._files.test, GENERATION)
        return prompts_of_test(rows, self._tokenizer, len(rows), self._reporter)

    def _lora(self, candidate: Candidate, seed: int) -> DecoderLora:
        """The trained LoRA. It is trained again if only its result was kept."""
        file = cache_folder("generation_quality", self._key(candidate, seed)) / LORA_FILE
        if not file.is_file():
            self._train(candidate, seed)
        return DecoderLora.load(file, self._root.architecture)

    def _train(self, candidate: Candidate, seed: int) -> dict[str, Any]:
        folder = cache_folder("generation_quality", self._key(candidate, seed))
        run = self._train_product if candidate.side == HMI else self._train_peft
        return run(candidate, seed, folder)

    def _train_product(self, candidate: Candidate, seed: int, folder: Path) -> dict[str, Any]:
        """By the job's code, with a row of dev for the test split, which `answer` alone reads."""
        stand_in = self._files.dev.with_name("one_row.jsonl")
        stand_in.write_text(self._files.dev.read_text("utf-8").partition("\n")[0] + "\n", encoding="utf-8")
        settings = replace(
            self._settings[HMI],
            seed=seed,
            lower_layers=candidate.lower_layers,
            learning_rate=candidate.learning_rate,
            test_prompts=1,
            new_tokens=1,
        )
        before = time.process_time()
        report = fine_tune_generative(
            decoder=self._root.decoder,
            tokenizer=self._root.tokenizer,
            dataset=replace(self._files, test=stand_in),
            task=GENERATION,
            out=folder,
            settings=settings,
            reporter=self._reporter,
        )
        seconds = time.process_time() - before
        lora = DecoderLora.load(folder / LORA_FILE, self._root.architecture)
        return {
            "dev_loss": self._dev_loss(lora),
            "epoch": report["best_epoch"],
            "epochs": report["epochs"],
            "training_seconds": seconds,
        }

    def _train_peft(self, candidate: Candidate, seed: int, folder: Path) -> dict[str, Any]:
        """By PEFT. Its epochs are imported as adapters are, and the best one on dev is kept."""
        assert self._peft is not None
        with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="peft-") as scratch:
            found = self._peft.train(
                self._root.checkpoint,
                self._sequences(self._files.train),
                replace(self._settings[PEFT], seed=seed, learning_rate=candidate.learning_rate),
                rows=self.rows_of_batch,
                out=Path(scratch, "epochs"),
            )
            loras = list(self._imported(found.folders, Path(scratch)))
        losses = [self._dev_loss(lora) for lora in loras]
        best = losses.index(min(losses))
        folder.mkdir(parents=True, exist_ok=True)
        loras[best].save(folder / LORA_FILE, self._root.architecture)
        return {
            "dev_loss": losses[best],
            "epoch": best + 1,
            "epochs": losses,
            "training_seconds": found.cpu_seconds,
            "versions": found.versions,
        }

    def _imported(self, adapters: list[Path], scratch: Path) -> Iterator[DecoderLora]:
        for number, adapter in enumerate(adapters):
            out = scratch / f"imported-{number}"
            generative_adapter_import(
                {"root": self._root.folder, "adapter": adapter, "out": out, "task": GENERATION}
            )
            yield GenerativeHplm.load(out, self._root.architecture).lora

    def _sequences(self, file: Path) -> list[TrainingSequence]:
        found = (self._tokenizer.sequence(row) for row in read_rows(file, GENERATION))
        return [one for one in found if one is not None]

    @property
    def _tokenizer(self) -> GenerativeTokenizer:
        limit = min(self._settings[HMI].max_tokens, self._root.architecture.positions)
        return replace(self._root.tokenizer, max_tokens=limit)

    def _dev_loss(self, lora: DecoderLora) -> float:
        """The mean cross-entropy (nats) of the tokens that are learned."""
        decoder = self._root.decoder
        split = GenerativeSplit(self._dev, FrozenStates(decoder, self._dev, 0, self._reporter))
        return split_loss(
            decoder, LoraParameters(lora.tensors), split, self._settings[HMI].batch_tokens, self._reporter
        )

    def _texts(self, prompts: Sequence[Prompt], lora: DecoderLora) -> list[str]:
        answers = generate_answers(
            prompts,
            self._tokenizer,
            self._root.decoder,
            lora,
            context=self._tokenizer.max_tokens,
            max_tokens=self._settings[HMI].new_tokens,
            reporter=self._reporter,
        )
        return [answer.text for answer in answers]
