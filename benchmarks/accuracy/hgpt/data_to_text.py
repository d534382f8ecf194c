"""The paper's table 4 at a decoder root: a LoRA learns to write texts from facts, the E2E dataset, above
computed or looked-up lower layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import tokenizers
import torch

from benchmarks.accuracy.e2e_dataset import Row, meaning_representations
from benchmarks.accuracy.hgpt.generation import complete_from_fragments
from benchmarks.accuracy.hgpt.lower_layers import LocalLowerLayers
from benchmarks.accuracy.hgpt.root import HgptRoot
from benchmarks.accuracy.hgpt.texts import Texts
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
from workers.training.generative.training import GenerativeSplit, LoraTraining, LowerStates, Schedule
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
class DataToTextSettings:
    """How many rows of each split are drawn, the epochs, and the peak learning rate."""

    train: int
    dev: int
    test: int
    epochs: int
    learning_rate: float
    seed: int = 0


class FragmentStates:
    """The `LowerStates` of sequences, computed on fragments instead of with full context."""

    def __init__(self, local: LocalLowerLayers, sequences: Sequence[TrainingSequence]) -> None:
        self.first = local.layers
        with torch.no_grad():
            self._states = [local.states(Texts((one.ids[:-1],))) for one in sequences]

    def of(self, indices: Sequence[int], batch: PackedBatch) -> torch.Tensor:
        """See `LowerStates`."""
        return torch.cat([self._states[index] for index in indices])


@dataclass(frozen=True, eq=False)
class DataToText:
    """The dataset at a root: rows that a LoRA learns from, prompts that it answers, and their references."""

    root: HgptRoot
    settings: DataToTextSettings
    reporter: Reporter

    def rouge_l(self, lower: int, local: LocalLowerLayers | None, folder: Path | None) -> dict[str, Any]:
        """Train a LoRA above the lowest `lower` layers, answer test prompts greedily, and compare.

        local: gives the lower states, in training and in generation (None: computed with full context).
        folder: of the training's checkpoints.
        """
        lora, report = self._train(lower, local, folder)
        groups = self._drawn("test", self.settings.test)
        tokenizer = self._tokenizer
        prompts = [tokenizer.prompt(PromptRow(_prompt(group[0]), "")) for group in groups]
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
            answers = complete_from_fragments(decoder, local, lora, prompts, sampling)
        texts = [
            tokenizer.decode(answer, prompt).strip() for answer, prompt in zip(answers, prompts, strict=True)
        ]
        references = [[row["completion"] for row in group] for group in groups]
        return {"rouge_l": rouge_l(references, texts), **report, "answers": texts[:3]}

    def _train(
        self, lower: int, local: LocalLowerLayers | None, folder: Path | None
    ) -> tuple[DecoderLora, dict[str, Any]]:
        settings, decoder = self.settings, self.root.decoder
        splits = {}
        for name, count in (("train", settings.train), ("dev", settings.dev)):
            sequences = self._sequences(name, count)
            states: LowerStates = (
                FrozenStates(decoder, sequences, lower, self.reporter)
                if local is None
                else FragmentStates(local, sequences)
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

    def _drawn(self, split: str, count: int) -> list[list[Row]]:
        """So many meaning representations of a split, drawn without replacement, each with its rows."""
        groups = list(meaning_representations(split))
        order = seeded_rng(self.settings.seed, DRAW).permutation(len(groups))[:count]
        return [groups[index] for index in order.tolist()]

    def _sequences(self, split: str, count: int) -> list[TrainingSequence]:
        """Of the first row of each meaning representation that is drawn."""
        rows = [group[0] for group in self._drawn(split, count)]
        found = [self._tokenizer.sequence(PromptRow(_prompt(row), row["completion"])) for row in rows]
        return [one for one in found if one is not None]

    @cached_property
    def _tokenizer(self) -> GenerativeTokenizer:
        root = self.root.root
        read, written = (tokenizers.Tokenizer.from_str(root.tokenizer) for _ in range(2))
        prompts = PromptTokenizer(read, ChatTemplate(root.chat_template))
        return GenerativeTokenizer(prompts, Detokenizer(written), root.config.stop_ids, MAX_TOKENS, NOW)


def _prompt(row: Row) -> str:
    """The facts, on a line of their own."""
    return f"{row['prompt']}\n"
