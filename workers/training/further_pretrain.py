"""Further-pretrain a domain: train its lower layers on the domain's text (paper sections 3.1 and 5.1)."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import FULL_LOWER_FILE, LM_HEAD_FILE, LmHead, Root
from inference.text.tokenization import TOKENIZER_FILE
from versiontree.job_settings import PretrainingSettings
from workers.training.checkpoints import CheckpointStore, seeded_rng
from workers.training.conversion import ALPHA
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.disk import atomic_folders
from workers.training.hidden_states import Teacher
from workers.training.lower_training import STAGE, DomainTraining
from workers.training.masked_language_model import HEAD_STAGE, LanguageModel, mask_tokens, new_head
from workers.training.multi_gpu import run_on_all_gpus
from workers.training.precision import configure_torch
from workers.training.progress import Reporter
from workers.training.ridge_regression import first_batches
from workers.training.sequences import TokenSequence, make_batch, make_batches
from workers.training.simulated_misses import FragmentFrequencies, MissSampler, SimulatedTable
from workers.training.training_corpus import BatchSampler, TrainingCorpus, read_general_text
from workers.training.training_loop import Budget, train_stage
from workers.training.unexplained_variance import RunningVariance, level_functions, measure

BATCHES_FOR_VARIANCE = 8
STAGE_NAME = "further pretrain"
FULL_STAGE_NAME = "further pretrain with full context"
# The share of `minutes` for the layers with full context: their share of the operations for the same tokens.
FULL_TIME_SHARE = 0.35
# The share of unknown held-out tokens above which the report warns.
MAX_UNKNOWN_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class FurtherPretrainSettings(PretrainingSettings):
    """distillation_weight: of the normalised squared error at the cut against the original lower layers; it
    keeps the states as the shared upper layers and the root's table expect them. full_learning_rate: of the
    layers with full context, which start at the checkpoint's optimum. complete_share, table_share: as in the
    root's conversion.
    """

    device: str = "auto"
    precision: str = "auto"
    head_epochs: int = 5
    counted_tokens: int = 2_000_000
    held_out_tokens: int = 6_000
    evaluation_tokens: int = 1_000
    held_out_share: float = 0.03
    batch_tokens: int = 900
    head_learning_rate: float = 2e-3
    full_learning_rate: float = 1e-4
    complete_share: float = 0.5
    table_share: float = 0.3


def further_pretrain(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    settings: FurtherPretrainSettings,
    reporter: Reporter,
    general: Path | None = None,
    checkpoints: CheckpointStore | None = None,
) -> dict[str, Any]:
    """Write the domain's lower layers to `out`: the local ones, and its own with full context. Report the
    perplexity of held-out text, the domain's and general: of the local ones before and after, of those with
    full context, and of the root's with full context.

    Both kinds start from those in the folder `lower`; where it has none with full context, from the root's.
    Trains the local ones first, with their embeddings and maps, then the others on the same masked tokens.
    Parameters that enter after the sum are frozen, because a text's vectors come from the tables of the
    domain and the root together. A newly fitted head is kept beside the lower layers, for the domain's next
    update. general: a corpus of general text (None: the sample kept with the root). Uses all visible GPUs.
    """
    return run_on_all_gpus(
        further_pretrain_in_process,
        device=settings.device,
        outputs=("out",),
        reporter=reporter,
        checkpoints=checkpoints,
        root=root,
        lower=lower,
        corpus=corpus,
        out=out,
        settings=settings,
        general=general,
    )


def further_pretrain_in_process(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    settings: FurtherPretrainSettings,
    reporter: Reporter,
    general: Path | None,
    checkpoints: CheckpointStore | None,
) -> dict[str, Any]:
    """`further_pretrain` in this process, alone or as one of several."""
    precision = configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)
    store = checkpoints or CheckpointStore()
    loaded = Root.load(root, precision.device)
    original, local = loaded.checkpoint_lower(), LocalLower.load(lower, precision.device)
    full = copy.deepcopy(loaded.full_lower(lower))
    training = _open_corpus(root, corpus, loaded, settings, reporter)
    head = _existing_head(loaded, lower)
    head_batches = training.train_batches(settings.head_tokens, stage=HEAD_STAGE) if head is None else []
    model = LanguageModel(
        lower=local,
        teacher=Teacher(original, loaded.upper, precision),
        head=(head or new_head(loaded, head_batches)).to(precision.device),
        words=original.word_embeddings.detach(),
        config=loaded.config,
    )
    if head is None:
        model.fit_head(
            head_batches,
            learning_rate=settings.head_learning_rate,
            epochs=settings.head_epochs,
            seed=settings.seed,
            reporter=reporter,
            checkpoints=store,
        )
    general_batches = _general_batches(root, general, loaded, settings, reporter)
    report = _DomainPretraining(
        model, local, full, training, general_batches, settings, reporter, store
    ).run()
    report["head_fitted"] = head is None
    with atomic_folders(out):
        local.cpu().save(out, report)
        full.save(out / FULL_LOWER_FILE)
        if loaded.lm_head() is None:
            model.head.save(out / LM_HEAD_FILE)
    return report


def _open_corpus(
    root: Path, corpus: Path, loaded: Root, settings: FurtherPretrainSettings, reporter: Reporter
) -> TrainingCorpus:
    return TrainingCorpus.split(
        read_corpus(corpus, reporter.raise_if_cancelled),
        CorpusReader(root / TOKENIZER_FILE, loaded.config),
        held_out_share=settings.held_out_share,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
        check=reporter.raise_if_cancelled,
    )


def _general_batches(
    root: Path, general: Path | None, loaded: Root, settings: FurtherPretrainSettings, reporter: Reporter
) -> list[list[TokenSequence]]:
    if general is not None:
        return _open_corpus(root, general, loaded, settings, reporter).held_out_batches(
            settings.held_out_tokens
        )
    return make_batches(read_general_text(root), batch_tokens=settings.batch_tokens, rng=None)


def _existing_head(root: Root, lower: Path) -> LmHead | None:
    """The root's head, or the one that earlier further pretraining of this branch fitted."""
    head = root.lm_head()
    if head is None and (lower / LM_HEAD_FILE).is_file():
        head = LmHead.load(lower / LM_HEAD_FILE, root.config.architecture, root.upper.device)
    return head.requires_grad_(False) if head is not None else None


class _DomainPretraining:
    """The training of one domain's lower layers, `local` and `full`, and its report."""

    def __init__(
        self,
        model: LanguageModel,
        local: LocalLower,
        full: FullLower,
        corpus: TrainingCorpus,
        general: list[list[TokenSequence]],
        settings: FurtherPretrainSettings,
        reporter: Reporter,
        checkpoints: CheckpointStore,
    ) -> None:
        self._local, self._model, self._full_model = local, model, replace(model, lower=full)
        self._corpus, self._settings = corpus, settings
        self._reporter, self._checkpoints = reporter, checkpoints
        self._held_out = {"domain": corpus.held_out_batches(settings.held_out_tokens)}
        if general:
            self._held_out["general"] = general

    def run(self) -> dict[str, Any]:
        checkpoint = self._checkpoints.load("before")
        before = checkpoint.state["before"] if checkpoint is not None else self._measure()
        self._checkpoints.save("before", 1, {}, {"before": before})
        if self._settings.tokens:
            self._train()
        after, full = self._measure(), self._perplexities(self._full_model)
        root = self._perplexities(replace(self._model, lower=self._model.teacher.lower))
        gain = {text: round(before["perplexity"][text] / after["perplexity"][text], 4) for text in root}
        unknown = self._unknown_share()
        return {
            "settings": asdict(self._settings),
            "root": {"perplexity": root},
            "before": before,
            "after": after,
            "full_context": {"perplexity": full},
            "gain": gain,
            "unknown_share": unknown,
            "warnings": _warnings(gain, unknown),
        }

    def _train(self) -> None:
        """Train the local lower layers, then those with full context."""
        settings, config = self._settings, self._model.config
        sampler = BatchSampler(self._corpus, settings.tokens, STAGE)
        counted = self._corpus.sequences_to_count(settings.counted_tokens)
        table = SimulatedTable(
            FragmentFrequencies.of(counted, config.n, config.missing_id), ALPHA, config.ladder
        )
        misses = MissSampler(table, settings.complete_share, settings.table_share)
        variance = self._variance(
            first_batches(sampler.batches, settings.batch_tokens * BATCHES_FOR_VARIANCE)
        )
        for stage, model, learning_rate, share in (
            (STAGE_NAME, self._model, settings.learning_rate, 1 - FULL_TIME_SHARE),
            (FULL_STAGE_NAME, self._full_model, settings.full_learning_rate, FULL_TIME_SHARE),
        ):
            training = DomainTraining(
                model,
                sampler,
                misses,
                seed=settings.seed,
                learning_rate=learning_rate,
                distillation_weight=settings.distillation_weight,
                variance=variance,
            )
            budget = Budget(len(sampler), None if settings.minutes is None else share * settings.minutes)
            evaluate = partial(self._evaluate, model)
            train_stage(stage, training, budget, self._reporter, self._checkpoints, evaluate)
            model.lower.requires_grad_(False)

    @torch.no_grad()
    def _variance(self, batches: Sequence[list[TokenSequence]]) -> float:
        variance, rng = RunningVariance(), seeded_rng(self._settings.seed, STAGE)
        for sequences in batches:
            self._reporter.raise_if_cancelled()
            masked = [mask_tokens(one, self._model.config, rng).sequence for one in sequences]
            teacher = self._model.teacher
            batch = make_batch(masked, self._model.config, teacher.precision.device)
            variance.add(batch.tokens_of(teacher.at_cut(batch)))
        return variance.variance

    def _measure(self) -> dict[str, Any]:
        model = self._model
        levels = level_functions(model.config.n)
        ends = {name: levels[name] for name in (next(iter(levels)), list(levels)[-1])}
        unexplained = measure(
            self._local, model.teacher, self._held_out["domain"], model.config, self._reporter, ends
        )
        return {"perplexity": self._perplexities(model), "unexplained": unexplained}

    def _perplexities(self, model: LanguageModel) -> dict[str, float]:
        return {
            text: round(model.perplexity(batches, self._settings.seed, self._reporter), 3)
            for text, batches in self._held_out.items()
        }

    def _evaluate(self, model: LanguageModel) -> dict[str, float]:
        few = {
            text: first_batches(batches, self._settings.evaluation_tokens)
            for text, batches in self._held_out.items()
        }
        return {
            f"perplexity_{text}": model.perplexity(batches, self._settings.seed, self._reporter)
            for text, batches in few.items()
        }

    def _unknown_share(self) -> float:
        ids = np.concatenate([one.ids for batch in self._held_out["domain"] for one in batch])
        return round(float((ids == self._model.config.unk_id).mean()), 4)


def _warnings(gain: Mapping[str, float], unknown: float) -> list[str]:
    found = []
    if gain["domain"] <= 1:
        found.append(
            "The perplexity on the domain's held-out text did not improve. More text or more training may "
            "help."
        )
    if unknown > MAX_UNKNOWN_SHARE:
        found.append(
            f"{100 * unknown:.0f}% of the corpus's tokens are unknown to the root's vocabulary: is it in "
            "another language?"
        )
    return found
