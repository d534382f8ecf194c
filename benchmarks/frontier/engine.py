"""Trained models in the engine of this process, asked as the inference worker asks it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from inference.cascade.dispatcher import HASH_BYTES, AnswerPolicy
from inference.cascade.profile import CascadeProfile
from inference.engine.adapters import PackedHplm
from inference.engine.batcher import BatchLimits, batch_size
from inference.engine.executor import Executor
from inference.engine.in_flight import InFlightBatch
from inference.engine.pet_pool import PetPool
from inference.engine.pipeline import Pipeline
from inference.engine.rows import Answered, ModelIdentity, Row, work_of
from inference.hplm.devices import pick_dtype
from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import Root
from inference.text.codec import TextCodec
from inference.text.encodings import EncodedInput, InferInput, outputs_at
from inference.text.outputs import OutputNames, Outputs

POOL_BYTES: Final = 4 << 30


@dataclass(frozen=True, slots=True)
class Branch:
    """Folders of the artifacts. lowers, tables: by domain; tables nearest first, the root's last."""

    root: Path
    lowers: Mapping[str, Path]
    tables: Mapping[str, Sequence[Path]]


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The folder of a model, its cascade, and the domain whose tables it reads."""

    folder: Path
    profile: CascadeProfile
    domain: str


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A text that a model is asked. tenant: whose copy of the model."""

    model: str
    given: InferInput
    tenant: int = 0


class Engine:
    """A root, its tables, and models by name, on the CPU. number_format: float32 or bfloat16.
    Every tenant has a copy of its own of each model."""

    def __init__(
        self,
        branch: Branch,
        models: Mapping[str, TrainedModel],
        *,
        number_format: str = "float32",
        pipeline: Pipeline | None = None,
    ) -> None:
        self._models = models
        self._dtype = pick_dtype(number_format, torch.device("cpu"))
        self.root = Root.load(branch.root, "cpu", self._dtype)
        self._codecs = {
            name: TextCodec(self.root.tokenizer, OutputNames.load(model.folder), model.profile)
            for name, model in models.items()
        }
        lowers = {domain: self._lower_layers(branch, domain) for domain in branch.tables}
        self.executor = Executor(
            self.root, _Lowers(lowers), PetPool(self._load, POOL_BYTES), pipeline=pipeline
        )

    def rows(self, questions: Sequence[Question], policy: AnswerPolicy) -> list[Row]:
        """A row for each question; its key is its place."""
        return [self._row(at, question, policy) for at, question in enumerate(questions)]

    def result(self, question: Question, answer: Answered, from_tables: Answered | None) -> dict[str, Any]:
        """The answer as the product's API gives it."""
        codec = self._codecs[question.model]
        outputs = Outputs(
            answer.logits,
            level=answer.row.level,
            from_tables=None if from_tables is None else from_tables.logits,
        )
        return codec.results([self._encoded(question)], [outputs], codec.plan(AnswerPolicy.CASCADE))[0]

    def _row(self, at: int, question: Question, policy: AnswerPolicy) -> Row:
        codec, plan = self._codecs[question.model], self._codecs[question.model].plan(policy)
        (encoding,) = self._encoded(question).encodings
        return Row(
            str(at),
            encoding.ids,
            encoding.types,
            ModelIdentity(
                f"tenant-{question.tenant}", question.model, 1, f"{question.model}-{question.tenant}"
            ),
            self._models[question.model].domain,
            plan.level,
            work_of(len(encoding), plan.level, self.root.config),
            plan.dispatcher,
            question.given.digest(HASH_BYTES),
            outputs_at=outputs_at(codec.task, encoding),
        )

    def _encoded(self, question: Question) -> EncodedInput:
        return self._codecs[question.model].encode([question.given])[0]

    def _load(self, model: ModelIdentity) -> PackedHplm:
        folder = self._models[model.hplm].folder
        return PackedHplm.of(Hplm.load(folder, dtype=None), self._dtype, model.digest)

    def _lower_layers(self, branch: Branch, domain: str) -> LowerLayers:
        chain = PlotChain([PlotTable.open(table) for table in branch.tables[domain]])
        composition = chain.composition.with_context_dtype(self._dtype)
        full = self.root.full_lower(branch.lowers[domain]).to(self._dtype)
        return LowerLayers(chain, full, composition)


@dataclass(frozen=True, slots=True)
class _Lowers:
    """The lower layers of each domain, all in memory."""

    by_domain: Mapping[str, LowerLayers]

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        del full
        return self.by_domain[chain]


class CascadeServer:
    """The product's batcher and engine (a `benchmarks.serving.open_loop.Server`): what goes on from the
    tables joins the next batch. Answers are kept by the keys of their rows."""

    looks_ahead = True

    def __init__(self, executor: Executor, limits: BatchLimits) -> None:
        self._executor, self._limits = executor, limits
        self.answers: dict[str, Answered] = {}
        self.from_tables: dict[str, Answered] = {}

    def choose(self, lengths: Sequence[int]) -> list[int]:
        return list(range(batch_size(lengths, self._limits)))

    def begin(self, rows: list[Row]) -> InFlightBatch:
        return self._executor.begin(rows)

    def finish(self, begun: InFlightBatch) -> Mapping[int, Row]:
        going_on = {}
        for place, outcome in enumerate(self._executor.finish(begun)):
            assert isinstance(outcome, Answered), outcome
            if outcome.escalates:
                self.from_tables[outcome.row.key] = outcome
                going_on[place] = outcome.row.escalated(self._executor.root.config)
            else:
                self.answers[outcome.row.key] = outcome
        return going_on


def questions(model: str, inputs: Sequence[InferInput], count: int, *, tenants: int = 1) -> list[Question]:
    """So many questions, of as many different inputs as there are, from tenants in turn."""
    order = np.random.default_rng(0).permutation(len(inputs))
    return [Question(model, inputs[order[at % len(inputs)]], at % tenants) for at in range(count)]
