"""Convert a checkpoint to a root: give it a lower half that sees only fragments (paper section 3.1)."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.full_lower import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from workers.training.closed_form import ClosedForm
from workers.training.corpus import CorpusReader, Ids, read_corpus
from workers.training.distil import Distillation, variances
from workers.training.precision import Arithmetic, arithmetic
from workers.training.progress import Reporter
from workers.training.states import Teacher
from workers.training.texts import TrainingTexts
from workers.training.tidy import written_whole
from workers.training.unexplained import LEVELS, measure

BATCHES_FOR_VARIANCE = 16


@dataclass(frozen=True, kw_only=True)
class ConvertSettings:
    """Budgets are in tokens, so that the same seed gives the same root whatever the machine's load.

    name: of the root (None: the checkpoint's). lower: layers below the cut (None: half). max_tokens:
    longest input (None: what the checkpoint allows).
    """

    name: str | None = None
    lower: int | None = None
    max_tokens: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    ridge_tokens: int = 60_000
    ridge_penalty: float = 10.0
    distil_tokens: int = 140_000
    held_out_tokens: int = 4_000
    held_out_share: float = 0.02
    batch_tokens: int = 1_280
    learning_rate: float = 6e-4
    position_learning_rate: float = 1e-3


def convert_root(
    *,
    checkpoint: str,
    corpus: Path,
    out_root: Path,
    out_lower: Path,
    settings: ConvertSettings,
    reporter: Reporter,
) -> dict[str, Any]:
    """Write a root and its local lower half; report the variance left unexplained on held-out text.

    The upper layers stay as they are. Raises HplmError for a checkpoint or corpus that will not do, or a
    loss that is no number; nothing is written then.
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    reporter.stage("open checkpoint", 1)
    source = open_checkpoint(checkpoint)
    root = Root.from_checkpoint(
        source, lower=settings.lower, max_tokens=settings.max_tokens, name=settings.name
    )
    reader = CorpusReader(source.tokenizer_file, root.config)
    texts = TrainingTexts.split(
        read_corpus(corpus),
        reader,
        held_out_share=settings.held_out_share,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
    )
    conversion = _Conversion(root, texts, settings, computing, reporter)
    reporter.advance(1)
    report = conversion.run()
    with written_whole(out_root, out_lower):
        root.save(out_root, report)
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
    ) -> None:
        full = root.checkpoint_lower().to(computing.device)
        self.local = LocalLower.from_full(full, root.config)
        self._teacher = Teacher(full, root.upper.to(computing.device), computing)
        self._positions = _position_features(full, root.config.max_tokens)
        self._config, self._texts, self._settings = root.config, texts, settings
        self._computing, self._reporter = computing, reporter
        self._held_out = texts.held_out(settings.held_out_tokens)

    def run(self) -> dict[str, Any]:
        report: dict[str, Any] = {"settings": asdict(self._settings)}
        report["unconverted"] = self._measure("trigram")
        groups = self._texts.to_learn(self._settings.ridge_tokens, stage=1)
        self._fit(groups)
        report["closed_form"] = self._measure(*LEVELS)
        if self._settings.distil_tokens:
            self._distil(groups)
            report["distilled"] = self._measure(*LEVELS)
        return report

    def _measure(self, *levels: str) -> dict[str, dict[str, float]]:
        return measure(
            self.local,
            self._teacher,
            self._held_out,
            self._config,
            self._computing,
            self._reporter,
            levels=levels,
        )

    def _fit(self, groups: list[list[Ids]]) -> None:
        closed_form = ClosedForm(
            local=self.local,
            teacher=self._teacher,
            position_features=self._positions,
            config=self._config,
            arithmetic=self._computing,
            penalty=self._settings.ridge_penalty,
            seed=self._settings.seed,
        )
        closed_form.fit(groups, self._reporter)

    def _distil(self, groups: list[list[Ids]]) -> None:
        distillation = Distillation(
            local=self.local,
            teacher=self._teacher,
            config=self._config,
            arithmetic=self._computing,
            scale=variances(self._teacher, groups[:BATCHES_FOR_VARIANCE], self._config, self._reporter),
            learning_rate=self._settings.learning_rate,
            position_learning_rate=self._settings.position_learning_rate,
            seed=self._settings.seed,
        )
        distillation.run(self._texts.to_learn(self._settings.distil_tokens, stage=2), self._reporter)


def _position_features(full: FullLower, max_tokens: int) -> Tensor:
    """[max_tokens, d]: the checkpoint's own position embeddings."""
    first = full.shape.position_offset
    return full.embeddings.positions.weight[first : first + max_tokens].detach()
