"""Convert a checkpoint to a root: give it a lower half that sees only fragments (paper section 3.1)."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.encoder import FullLower
from inference.hplm.fragments import DEFAULT_N
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from workers.training.checkpoints import Checkpoints
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.disk import atomic_folders
from workers.training.distillation import STAGE as DISTIL_STAGE
from workers.training.distillation import Distillation, DistilRates, local_tensors, restore_local, variances
from workers.training.hidden_states import Teacher
from workers.training.multi_gpu import gpus, peer_processes, reading_only
from workers.training.precision import Arithmetic, arithmetic
from workers.training.progress import Reporter
from workers.training.ridge_regression import STAGE as CLOSED_FORM_STAGE
from workers.training.ridge_regression import ClosedForm, batches_for, fit_context
from workers.training.simulated_misses import Frequencies, Patterns, Reading, TableGaps
from workers.training.training_loop import Budget, learn
from workers.training.training_texts import Course, TrainingTexts, write_general
from workers.training.unexplained_variance import level_readings, measure, measure_mixed

BATCHES_FOR_VARIANCE = 16
# The coverage of the table whose gaps a conversion learns with and is measured with.
ALPHA = 50.0


@dataclass(frozen=True, kw_only=True)
class ConvertSettings:
    """Budgets are in tokens, so that the same seed gives the same root whatever the machine's load; with
    `distil_minutes` distillation takes that long instead (over its tokens again and again).

    name: of the root (None: the checkpoint's). lower_layers: below the cut (None: half). n: tokens of a
    fragment. max_tokens: longest input (None: what the checkpoint allows). counted_tokens: of the corpus, to
    know its frequent fragments by. context_rank: of the term for what no fragment sees. general_tokens: of
    the held-out text kept with the root, to measure domains by. complete_share, table_share: of the
    sequences that distillation reads with every fragment and as a table gives them; the rest by uni-grams.
    """

    name: str | None = None
    lower_layers: int | None = None
    n: int = DEFAULT_N
    max_tokens: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    counted_tokens: int = 2_000_000
    ridge_tokens: int = 60_000
    ridge_penalty: float = 10.0
    context_rank: int = 64
    context_tokens: int = 30_000
    distil_tokens: int = 1_100_000
    distil_minutes: float | None = None
    held_out_tokens: int = 6_000
    watched_tokens: int = 1_000
    general_tokens: int = 6_000
    held_out_share: float = 0.02
    batch_tokens: int = 900
    learning_rate: float = 6e-4
    position_learning_rate: float = 1e-3
    complete_share: float = 0.45
    table_share: float = 0.4
    last_weight: float = 1.0
    last_share: float = 0.25


def convert_root(
    *,
    checkpoint: str,
    corpus: Path,
    out_root: Path,
    out_lower: Path,
    settings: ConvertSettings,
    reporter: Reporter,
    checkpoints: Checkpoints | None = None,
) -> dict[str, Any]:
    """Write a root and its local lower half; report the variance left unexplained on held-out text.

    The upper layers stay as they are. All GPUs that are visible work on it. Raises HplmError for a checkpoint
    or corpus that will not do, or a loss that is no number; nothing is written then.
    """
    given: dict[str, Any] = {
        "checkpoint": checkpoint,
        "corpus": corpus,
        "out_root": out_root,
        "out_lower": out_lower,
        "settings": settings,
    }
    theirs = given | {"checkpoints": reading_only(checkpoints)}
    with peer_processes(convert_here, theirs, ("out_root", "out_lower"), gpus(settings.device)) as others:
        return convert_here(**given, reporter=others.watched_by(reporter), checkpoints=checkpoints)


def convert_here(
    *,
    checkpoint: str,
    corpus: Path,
    out_root: Path,
    out_lower: Path,
    settings: ConvertSettings,
    reporter: Reporter,
    checkpoints: Checkpoints | None,
) -> dict[str, Any]:
    """`convert_root` in this process, alone or as one of several."""
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    reporter.stage("open checkpoint", 1)
    source = open_checkpoint(checkpoint)
    root = Root.from_checkpoint(
        source, lower=settings.lower_layers, max_tokens=settings.max_tokens, n=settings.n, name=settings.name
    )
    reader = CorpusReader(source.tokenizer_file, root.config)
    texts = TrainingTexts.split(
        read_corpus(corpus, reporter.check),
        reader,
        held_out_share=settings.held_out_share,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
        check=reporter.check,
    )
    conversion = _Conversion(root, texts, settings, computing, reporter, checkpoints or Checkpoints())
    reporter.advance(1)
    report = conversion.run()
    with atomic_folders(out_root, out_lower):
        root.save(out_root, report)
        write_general(out_root, texts.held_out(settings.general_tokens))
        conversion.local.cpu().save(out_lower, report)
    return report


class _Conversion:
    def __init__(
        self,
        root: Root,
        texts: TrainingTexts,
        settings: ConvertSettings,
        computing: Arithmetic,
        reporter: Reporter,
        checkpoints: Checkpoints,
    ) -> None:
        full = root.checkpoint_lower().to(computing.device)
        rank = min(settings.context_rank, root.config.hidden)
        self.local = LocalLower.from_full(full, root.config, context_rank=rank)
        self._teacher = Teacher(full, root.upper.to(computing.device), computing)
        self._positions = _position_features(full, root.config.max_tokens)
        self._config, self._texts, self._settings = root.config, texts, settings
        self._computing, self._reporter, self._checkpoints = computing, reporter, checkpoints
        self._held_out = texts.held_out(settings.held_out_tokens)
        counted = Frequencies.of(
            texts.counted(settings.counted_tokens), root.config.n, root.config.missing_id
        )
        self._gaps = TableGaps(counted, ALPHA)

    def run(self) -> dict[str, Any]:
        report = self._closed_form()
        if self._settings.distil_tokens:
            self._distil()
            report["distilled"] = self._measure(self._levels)
        table = self._gaps.reading(counted=False)
        report["table"] = self._measure({f"alpha_{ALPHA:g}": table})
        report["mixed"] = measure_mixed(
            self.local, self._teacher, self._held_out, self._config, self._reporter, table
        )
        return report

    def _closed_form(self) -> dict[str, Any]:
        """Fit it, and report so far; both from the checkpoint when they were done before a kill."""
        saved = self._checkpoints.load("closed form")
        if saved is not None:
            restore_local(self.local, saved.tensors)
            return saved.state
        complete = dict(list(self._levels.items())[:1])
        report: dict[str, Any] = {"settings": asdict(self._settings)}
        report["unconverted"] = self._measure(complete)
        settings = self._settings
        groups = self._texts.to_learn(settings.ridge_tokens, stage=CLOSED_FORM_STAGE)
        ClosedForm(
            local=self.local,
            teacher=self._teacher,
            position_features=self._positions,
            config=self._config,
            arithmetic=self._computing,
            patterns=Patterns(self._gaps, complete=0.0, table=0.6),
            penalty=settings.ridge_penalty,
            seed=settings.seed,
        ).fit(groups, self._reporter)
        if len(self.local.context_up):
            few = batches_for(groups, settings.context_tokens)
            table = self._gaps.reading(counted=True)
            fit_context(self.local, self._teacher, few, table, self._config, self._reporter)
        report["closed_form"] = self._measure(self._levels)
        self._checkpoints.save("closed form", 1, local_tensors(self.local), report)
        return report

    def _distil(self) -> None:
        settings, texts = self._settings, self._texts
        few = texts.to_learn(settings.ridge_tokens, stage=CLOSED_FORM_STAGE)[:BATCHES_FOR_VARIANCE]
        course = Course(texts, settings.distil_tokens, DISTIL_STAGE)
        distillation = Distillation(
            self.local,
            self._teacher,
            self._config,
            variances(self._teacher, few, self._config, self._reporter),
            Patterns(self._gaps, complete=settings.complete_share, table=settings.table_share),
            course,
            DistilRates(
                settings.learning_rate,
                settings.position_learning_rate,
                settings.last_weight,
                settings.last_share,
            ),
        )
        budget = Budget(len(course), settings.distil_minutes)
        learn("distil", distillation, budget, self._reporter, self._checkpoints, self._watch)
        self.local.requires_grad_(False)

    def _watch(self) -> dict[str, float]:
        """A few held-out figures: whole fragments, and uni-grams alone."""
        names = list(self._levels)
        readings = {name: self._levels[name] for name in (names[0], names[-1])}
        few = batches_for(self._held_out, self._settings.watched_tokens)
        found = self._measure(readings, few)
        return {f"unexplained_{name}_{at}": found[name][at] for name in readings for at in ("cut", "last")}

    @property
    def _levels(self) -> dict[str, Reading]:
        return level_readings(self._config.n)

    def _measure(self, readings: dict[str, Reading], groups: Any = None) -> dict[str, dict[str, Any]]:
        held_out = self._held_out if groups is None else groups
        return measure(self.local, self._teacher, held_out, self._config, self._reporter, readings)


def _position_features(full: FullLower, max_tokens: int) -> Tensor:
    """[max_tokens, e]: the checkpoint's own position embeddings."""
    first = full.shape.position_offset
    with torch.no_grad():
        return full.embeddings.positions.weight[first : first + max_tokens].clone()
