"""Masked language modelling with the original, full-context model, of which some layers are trained.

The paper's figure 7 (upper half) compares these; the product itself trains a root's local lower half.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from torch import Tensor, nn

from inference.hplm.root import LmHead, Root
from inference.text.tokenization import TOKENIZER_FILE
from workers.training.checkpoints import CheckpointStore, seeded_rng
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.further_pretrain import FurtherPretrainSettings
from workers.training.hidden_states import Teacher
from workers.training.masked_language_model import (
    HEAD_STAGE,
    LanguageModel,
    MaskedSequence,
    mask_tokens,
    new_head,
)
from workers.training.optimizer import Optimizer
from workers.training.precision import Precision
from workers.training.progress import Reporter
from workers.training.sequences import TokenSequence
from workers.training.training_corpus import BatchSampler, TrainingCorpus

TrainedLayers = Literal["none", "upper", "lower", "all"]
VARIANTS: Final[tuple[TrainedLayers, ...]] = ("none", "upper", "lower", "all")
STAGE = 3
WARMUP_SHARE = 0.06


@dataclass(frozen=True)
class Domain:
    """The domain's training texts, and held-out texts of the domain and of general text."""

    corpus: TrainingCorpus
    held_out: dict[str, list[list[TokenSequence]]]

    @classmethod
    def read(cls, root: Path, corpus: Path, general: Path, settings: FurtherPretrainSettings) -> "Domain":
        """Split the corpora as further pretraining with these settings does."""
        reader = CorpusReader(root / TOKENIZER_FILE, Root.load(root).config)
        domain, other = (
            TrainingCorpus.split(
                read_corpus(file),
                reader,
                held_out_share=settings.held_out_share,
                batch_tokens=settings.batch_tokens,
                seed=settings.seed,
            )
            for file in (corpus, general)
        )
        tokens = settings.held_out_tokens
        return cls(
            domain, {"domain": domain.held_out_batches(tokens), "general": other.held_out_batches(tokens)}
        )


def open_published(
    root: Root,
    domain: Domain,
    settings: FurtherPretrainSettings,
    precision: Precision,
    reporter: Reporter,
    head_file: Path,
) -> LanguageModel:
    """The published model with its language model head, or with one fitted on the domain's text and cached in
    `head_file`."""
    head = root.lm_head()
    if head is None and head_file.is_file():
        head = LmHead.load(head_file, root.config.architecture, precision.device)
    batches = domain.corpus.train_batches(settings.head_tokens, stage=HEAD_STAGE) if head is None else []
    full = root.checkpoint_lower()
    model = LanguageModel(
        lower=full,
        teacher=Teacher(full, root.upper, precision),
        head=(head or new_head(root, batches)).to(precision.device).requires_grad_(False),
        words=full.word_embeddings.detach().clone(),
        config=root.config,
    )
    if head is None:
        model.fit_head(
            batches,
            learning_rate=settings.head_learning_rate,
            epochs=settings.head_epochs,
            seed=settings.seed,
            reporter=reporter,
            checkpoints=CheckpointStore(),
        )
        head_file.parent.mkdir(parents=True, exist_ok=True)
        model.head.save(head_file)
    return model


def train_variant(
    published: LanguageModel,
    layers: TrainedLayers,
    domain: Domain,
    settings: FurtherPretrainSettings,
    reporter: Reporter,
) -> LanguageModel:
    """A copy of the model with these layers trained on the domain; the head stays frozen."""
    teacher = published.teacher
    lower, upper = copy.deepcopy(teacher.lower), copy.deepcopy(teacher.upper)
    model = replace(published, lower=lower, teacher=Teacher(lower, upper, teacher.precision))
    modules: list[nn.Module] = [
        module for module, names in ((lower, ("lower", "all")), (upper, ("upper", "all"))) if layers in names
    ]
    if modules:
        _train(model, modules, BatchSampler(domain.corpus, settings.tokens, STAGE), settings, reporter)
    return model


def perplexities(model: LanguageModel, domain: Domain, seed: int, reporter: Reporter) -> dict[str, float]:
    """The perplexity of each held-out text."""
    return {name: model.perplexity(batches, seed, reporter) for name, batches in domain.held_out.items()}


def save_as_root(model: LanguageModel, root: Root, out: Path) -> None:
    """Write the model as a root, to fine-tune it with full-context lower layers."""
    Root(root.config, model.teacher.upper, _tokenizer=root.tokenizer, _lower=model.teacher.lower).save(out)


def _train(
    model: LanguageModel,
    modules: Sequence[nn.Module],
    sampler: BatchSampler,
    settings: FurtherPretrainSettings,
    reporter: Reporter,
) -> None:
    parameters = [parameter for module in modules for parameter in module.requires_grad_(True).parameters()]
    groups: list[dict[str, Any]] = [{"params": parameters, "lr": settings.learning_rate}]
    optimizer = Optimizer(groups, steps=len(sampler), warmup=round(WARMUP_SHARE * len(sampler)))
    reporter.start_stage("further pretrain, full context", len(sampler))

    def loss(hidden: list[MaskedSequence]) -> Tensor:
        masked = model.batch(hidden)
        return model.loss(masked, model.states(masked))

    for number in range(len(sampler)):
        reporter.raise_if_cancelled()
        rng = seeded_rng(settings.seed, STAGE, number)
        hidden = [mask_tokens(one, model.config, rng) for one in sampler.batch(number)]
        value = optimizer.train_step(hidden, loss, weight_of=lambda one: len(one.positions))
        reporter.report(number + 1, loss=value)
    for module in modules:
        module.requires_grad_(False)
