"""Further-pretrain a domain: its lower half learns the domain's language (paper sections 3.1 and 5.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from inference.hplm.local_lower import LocalLower
from inference.hplm.root import LM_HEAD_FILE, TOKENIZER_FILE, LmHead, Root
from workers.training.checkpoints import Checkpoints, draws
from workers.training.convert import ALPHA
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.disk import atomic_folders
from workers.training.domain_learner import STAGE, DomainLearning
from workers.training.hidden_states import Teacher
from workers.training.masked_language_model import HEAD_STAGE, LanguageModel, hide, new_head
from workers.training.multi_gpu import gpus, peer_processes, reading_only
from workers.training.precision import arithmetic
from workers.training.progress import Reporter
from workers.training.ridge_regression import batches_for
from workers.training.sequences import Framed, batches_of, make_batch
from workers.training.simulated_misses import Frequencies, Patterns, TableGaps
from workers.training.training_loop import Budget, learn
from workers.training.training_texts import Course, TrainingTexts, read_general
from workers.training.unexplained_variance import Spread, level_readings, measure

BATCHES_FOR_VARIANCE = 8
STAGE_NAME = "further pretrain"
# The share of held-out tokens that the vocabulary does not know above which the report warns.
MUCH_UNKNOWN = 0.05


@dataclass(frozen=True, kw_only=True)
class FurtherPretrainSettings:
    """Budgets are in tokens; with `minutes` the lower layers learn that long instead (over their tokens again
    and again). head_tokens: to fit a language model head with, where there is none yet.

    similarity_weight: weight of the normalised squared error at the cut against the original lower layers,
    beside the language model loss. It keeps the states as the shared upper layers and the root's rows expect
    them. complete_share, table_share: as in the root's conversion.
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    head_tokens: int = 150_000
    head_passes: int = 5
    tokens: int = 300_000
    minutes: float | None = None
    counted_tokens: int = 2_000_000
    held_out_tokens: int = 6_000
    watched_tokens: int = 1_000
    held_out_share: float = 0.03
    batch_tokens: int = 900
    head_learning_rate: float = 2e-3
    learning_rate: float = 3e-4
    similarity_weight: float = 20.0
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
    checkpoints: Checkpoints | None = None,
) -> dict[str, Any]:
    """Write the domain's lower half to `out`; report perplexity on held-out text, the domain's and general,
    before and after, and that of the root's own layers with full context.

    Only the lower layers, their embeddings and maps learn. What enters after the sum does not: a text's rows
    come from the tables of the domain and of the root together, and are composed in one way. A head that had
    to be fitted is kept beside the lower half, for the domain's next update. general: a corpus of general
    text; without it the sample kept with the root is measured. All GPUs that are visible work on it.
    """
    given: dict[str, Any] = {
        "root": root,
        "lower": lower,
        "corpus": corpus,
        "out": out,
        "settings": settings,
        "general": general,
    }
    theirs = given | {"checkpoints": reading_only(checkpoints)}
    with peer_processes(further_pretrain_here, theirs, ("out",), gpus(settings.device)) as others:
        return further_pretrain_here(**given, reporter=others.watched_by(reporter), checkpoints=checkpoints)


def further_pretrain_here(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    settings: FurtherPretrainSettings,
    reporter: Reporter,
    general: Path | None,
    checkpoints: Checkpoints | None,
) -> dict[str, Any]:
    """`further_pretrain` in this process, alone or as one of several."""
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    kept = checkpoints or Checkpoints()
    loaded = Root.load(root, computing.device)
    full = loaded.checkpoint_lower()
    texts = _texts(root, corpus, loaded, settings, reporter)
    known = _known_head(loaded, lower)
    head_groups = texts.to_learn(settings.head_tokens, stage=HEAD_STAGE) if known is None else []
    model = LanguageModel(
        local=LocalLower.load(lower, computing.device),
        teacher=Teacher(full, loaded.upper, computing),
        head=(known or new_head(loaded, head_groups)).to(computing.device),
        words=full.word_embeddings.detach(),
        config=loaded.config,
    )
    if known is None:
        model.fit_head(
            head_groups,
            learning_rate=settings.head_learning_rate,
            passes=settings.head_passes,
            seed=settings.seed,
            reporter=reporter,
            checkpoints=kept,
        )
    elsewhere = _general(root, general, loaded, settings, reporter)
    report = _Domain(model, texts, elsewhere, settings, reporter, kept).run()
    report["head_fitted"] = known is None
    with atomic_folders(out):
        model.local.cpu().save(out, report)
        if loaded.lm_head() is None:
            model.head.save(out / LM_HEAD_FILE)
    return report


def _texts(
    root: Path, corpus: Path, loaded: Root, settings: FurtherPretrainSettings, reporter: Reporter
) -> TrainingTexts:
    return TrainingTexts.split(
        read_corpus(corpus, reporter.check),
        CorpusReader(root / TOKENIZER_FILE, loaded.config),
        held_out_share=settings.held_out_share,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
        check=reporter.check,
    )


def _general(
    root: Path, general: Path | None, loaded: Root, settings: FurtherPretrainSettings, reporter: Reporter
) -> list[list[Framed]]:
    if general is not None:
        return _texts(root, general, loaded, settings, reporter).held_out(settings.held_out_tokens)
    return batches_of(read_general(root), batch_tokens=settings.batch_tokens, rng=None)


def _known_head(root: Root, lower: Path) -> LmHead | None:
    """The root's own head, or the one an earlier further pretraining of this branch fitted."""
    own = root.lm_head()
    if own is None and (lower / LM_HEAD_FILE).is_file():
        own = LmHead.load(lower / LM_HEAD_FILE, root.config.architecture, root.upper.device)
    return own.requires_grad_(False) if own is not None else None


class _Domain:
    """One domain while it learns."""

    def __init__(
        self,
        model: LanguageModel,
        texts: TrainingTexts,
        general: list[list[Framed]],
        settings: FurtherPretrainSettings,
        reporter: Reporter,
        checkpoints: Checkpoints,
    ) -> None:
        self._model, self._texts, self._settings = model, texts, settings
        self._reporter, self._checkpoints = reporter, checkpoints
        self._held_out = {"domain": texts.held_out(settings.held_out_tokens)}
        if general:
            self._held_out["general"] = general

    def run(self) -> dict[str, Any]:
        saved = self._checkpoints.load("before")
        before = saved.state["before"] if saved is not None else self._measured()
        self._checkpoints.save("before", 1, {}, {"before": before})
        if self._settings.tokens:
            self._learn()
        after, root = self._measured(), self._perplexities(original=True)
        gain = {text: round(before["perplexity"][text] / after["perplexity"][text], 4) for text in root}
        unknown = self._unknown_share()
        return {
            "settings": asdict(self._settings),
            "root": {"perplexity": root},
            "before": before,
            "after": after,
            "gain": gain,
            "unknown_share": unknown,
            "warnings": _warnings(gain, unknown),
        }

    def _learn(self) -> None:
        settings, config = self._settings, self._model.config
        course = Course(self._texts, settings.tokens, STAGE)
        counted = Frequencies.of(self._texts.counted(settings.counted_tokens), config.n, config.missing_id)
        patterns = Patterns(
            TableGaps(counted, ALPHA), complete=settings.complete_share, table=settings.table_share
        )
        few = batches_for(course.batches, settings.batch_tokens * BATCHES_FOR_VARIANCE)
        learning = DomainLearning(
            self._model,
            course,
            patterns,
            seed=settings.seed,
            learning_rate=settings.learning_rate,
            similarity_weight=settings.similarity_weight,
            variance=self._variance(few),
        )
        budget = Budget(len(course), settings.minutes)
        learn(STAGE_NAME, learning, budget, self._reporter, self._checkpoints, self._watch)
        self._model.local.requires_grad_(False)

    @torch.no_grad()
    def _variance(self, groups: Sequence[list[Framed]]) -> float:
        spread, rng = Spread(), draws(self._settings.seed, STAGE)
        for sequences in groups:
            self._reporter.check()
            hidden = [hide(one, self._model.config, rng).framed for one in sequences]
            batch = make_batch(hidden, self._model.config)
            states = self._model.teacher.at_cut(batch)
            spread.add(states[batch.mask.to(states.device)])
        return spread.variance

    def _measured(self) -> dict[str, Any]:
        model = self._model
        levels = level_readings(model.config.n)
        ends = {name: levels[name] for name in (next(iter(levels)), list(levels)[-1])}
        unexplained = measure(
            model.local, model.teacher, self._held_out["domain"], model.config, self._reporter, ends
        )
        return {"perplexity": self._perplexities(), "unexplained": unexplained}

    def _perplexities(self, *, original: bool = False) -> dict[str, float]:
        return {
            text: round(
                self._model.perplexity(groups, self._settings.seed, self._reporter, original=original), 3
            )
            for text, groups in self._held_out.items()
        }

    def _watch(self) -> dict[str, float]:
        few = {
            text: batches_for(groups, self._settings.watched_tokens)
            for text, groups in self._held_out.items()
        }
        return {
            f"perplexity_{text}": self._model.perplexity(groups, self._settings.seed, self._reporter)
            for text, groups in few.items()
        }

    def _unknown_share(self) -> float:
        ids = np.concatenate([one.ids for group in self._held_out["domain"] for one in group])
        return round(float((ids == self._model.config.unk_id).mean()), 4)


def _warnings(gain: Mapping[str, float], unknown: float) -> list[str]:
    found = []
    if gain["domain"] <= 1:
        found.append(
            "The domain's held-out text is guessed no better than before: more text or more training may "
            "help."
        )
    if unknown > MUCH_UNKNOWN:
        found.append(
            f"{100 * unknown:.0f}% of the corpus's tokens are unknown to the root's vocabulary: is it in "
            "another language?"
        )
    return found
