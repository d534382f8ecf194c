"""The paper's table 4 at a decoder root: a LoRA learns to write, above computed or looked-up layers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import tokenizers
import torch

from benchmarks.accuracy.data import data_dir
from benchmarks.accuracy.hgpt.generation import complete_locally
from benchmarks.accuracy.hgpt.local_lower import LocalLower, Texts
from benchmarks.accuracy.hgpt.texts import HgptRoot
from inference.decoder.lora import DecoderLora
from inference.generation.offline import complete
from inference.generation.requests import SamplingParams
from inference.text.chat_template import ChatTemplate
from inference.text.detokenizer import Detokenizer
from inference.text.prompts import PromptTokenizer
from workers.training.checkpoints import CheckpointStore, seeded_generator, seeded_rng
from workers.training.generative.frozen_states import FrozenStates
from workers.training.generative.lora_parameters import LoraParameters, LoraSpec
from workers.training.generative.metrics import rouge_l
from workers.training.generative.packing import PackedBatch, TrainingSequence
from workers.training.generative.rows import PromptRow
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.generative.training import GenerativeSplit, LoraTraining, Schedule
from workers.training.progress import Reporter

RANK: Final = 16
MAX_TOKENS: Final = 160
"""Of a row."""
NEW_TOKENS: Final = 64
"""Of an answer."""
BATCH_TOKENS: Final = 512
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""What a chat template could write; prompts have none."""
DRAW: Final = 3
"""Of rows, among the random draws of the benchmark."""


@dataclass(frozen=True, kw_only=True)
class E2eSettings:
    """How many rows of each split are drawn, the epochs, and the peak learning rate."""

    train: int
    dev: int
    test: int
    epochs: int
    learning_rate: float
    seed: int = 0


class LocalStates(FrozenStates):
    """The looked-up states of each sequence, in the place of those that are computed with full context."""

    def __init__(self, local: LocalLower, sequences: Sequence[TrainingSequence]) -> None:
        self.first = local.layers
        with torch.no_grad():
            self._states = [local.states(Texts((one.ids[:-1],))) for one in sequences]

    def of(self, indices: Sequence[int], batch: PackedBatch) -> torch.Tensor:
        """The states [T, hidden] of the sequences number `indices`."""
        return torch.cat([self._states[index] for index in indices])


@dataclass(frozen=True, eq=False)
class E2e:
    """The dataset at a root: rows that a LoRA learns from, prompts that it answers, and their references."""

    root: HgptRoot
    settings: E2eSettings
    reporter: Reporter

    def rouge_l(self, lower: int, local: LocalLower | None, folder: Path | None) -> dict[str, Any]:
        """Train a LoRA above the lowest `lower` layers, answer test prompts greedily, and compare.

        local: gives the lower states, in training and in generation (None: computed with full context).
        folder: of the training's checkpoints.
        """
        lora, report = self._train(lower, local, folder)
        rows = self._rows("test", self.settings.test)
        tokenizer = self._tokenizer
        prompts = [tokenizer.prompt(PromptRow(_prompt(row), "")) for row in rows]
        stop = frozenset(tokenizer.stop_ids)
        sampling = SamplingParams(max_tokens=NEW_TOKENS, temperature=0.0, stop_tokens=stop)
        decoder = self.root.decoder
        if local is None:
            context = max(map(len, prompts)) + NEW_TOKENS
            self.reporter.start_stage("generate", len(prompts))
            answers = complete(
                decoder, lora, prompts, sampling, context=context, after_step=self.reporter.report
            )
        else:
            answers = complete_locally(decoder, local, lora, prompts, sampling)
        texts = [
            tokenizer.decode(answer, prompt).strip() for answer, prompt in zip(answers, prompts, strict=True)
        ]
        references = [row["completions"] for row in rows]
        return {"rouge_l": rouge_l(references, texts), **report, "answers": texts[:3]}

    def _train(
        self, lower: int, local: LocalLower | None, folder: Path | None
    ) -> tuple[DecoderLora, dict[str, Any]]:
        settings, decoder = self.settings, self.root.decoder
        splits = {}
        for name, count in (("train", settings.train), ("dev", settings.dev)):
            sequences = self._sequences(self._rows(name, count))
            states = (
                FrozenStates(decoder, sequences, lower, self.reporter)
                if local is None
                else LocalStates(local, sequences)
            )
            splits[name] = GenerativeSplit(sequences, states)
        shape = decoder.architecture
        spec = LoraSpec(rank=RANK, alpha=2.0 * RANK, layers=range(lower, shape.layers))
        lora = LoraParameters.initial(shape, spec, seeded_generator(settings.seed))
        schedule = Schedule(
            settings.learning_rate,
            settings.epochs,
            patience=settings.epochs,
            batch_tokens=BATCH_TOKENS,
            batch_size=None,
            seed=settings.seed,
        )
        report = LoraTraining(decoder, lora, splits, schedule, self.reporter, CheckpointStore(folder)).run()
        return lora.trained(shape), report

    def _rows(self, split: str, count: int) -> list[dict[str, Any]]:
        """So many rows of a split, drawn without replacement."""
        lines = (data_dir() / "e2e" / f"{split}.txt").read_text(encoding="utf-8").splitlines()
        order = seeded_rng(self.settings.seed, DRAW).permutation(len(lines))[:count]
        return [json.loads(lines[index]) for index in order.tolist()]

    def _sequences(self, rows: Sequence[dict[str, Any]]) -> list[TrainingSequence]:
        tokenizer = self._tokenizer
        found = [tokenizer.sequence(PromptRow(_prompt(row), _completion(row))) for row in rows]
        return [one for one in found if one is not None]

    @property
    def _tokenizer(self) -> GenerativeTokenizer:
        root = self.root.root
        read, written = (tokenizers.Tokenizer.from_str(root.tokenizer) for _ in range(2))
        prompts = PromptTokenizer(read, ChatTemplate(root.chat_template))
        return GenerativeTokenizer(prompts, Detokenizer(written), root.config.stop_ids, MAX_TOKENS, NOW)


def _prompt(row: dict[str, Any]) -> str:
    """The facts, on a line of their own."""
    return f"{row['prompt']}\n"


def _completion(row: dict[str, Any]) -> str:
    """The text of a training row; of others the first of its texts."""
    return str(row["completion"] if "completion" in row else row["completions"][0])
