"""The stages of a conversion: closed form, distillation, context mixer and ladder."""

from dataclasses import asdict, dataclass
from typing import Any

from torch.nn import LayerNorm

from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from versiontree.job_settings import EncoderConversionSettings
from workers.training.checkpoints import CheckpointStore
from workers.training.hidden_states import Teacher
from workers.training.lower_training import STAGE as DISTIL_STAGE
from workers.training.lower_training import (
    Distillation,
    DistillationRates,
    Variances,
    load_lower_state_dict,
    lower_state_dict,
    measure_variances,
)
from workers.training.mixer_training import STAGE as MIXER_STAGE
from workers.training.mixer_training import MixerTraining, cache_states, fitted_norm, mixer_views, new_mixer
from workers.training.optimizer import with_prefix
from workers.training.precision import Precision
from workers.training.progress import Reporter
from workers.training.ridge_regression import STAGE as CLOSED_FORM_STAGE
from workers.training.ridge_regression import RidgeFit, first_batches, position_features
from workers.training.sequences import TokenSequence
from workers.training.simulated_misses import (
    FragmentFrequencies,
    LevelFunction,
    MissSampler,
    SimulatedTable,
    ladders_to_choose,
)
from workers.training.training_corpus import BatchSampler, TrainingCorpus
from workers.training.training_loop import Budget, load_finished, train_stage
from workers.training.unexplained_variance import level_functions, measure, measure_mixed

BATCHES_FOR_VARIANCE = 16
ALPHA = 50.0
"""The coverage, in %, of the simulated table that conversion is measured and distilled with."""


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(EncoderConversionSettings):
    """name: of the root (None: the checkpoint's). counted_tokens: of the corpus, to find its frequent
    fragments. held_out_tokens: to measure, at most a tenth of ridge_tokens. general_tokens: of the held-out
    text kept with the root, to evaluate domains on. complete_share, table_share: of the distilled sequences,
    those looked up with complete fragments and as in a table; the rest by uni-grams.
    """

    name: str | None = None
    device: str = "auto"
    precision: str = "auto"
    counted_tokens: int = 2_000_000
    ridge_penalty: float = 10.0
    held_out_tokens: int = 6_000
    evaluation_tokens: int = 1_000
    general_tokens: int = 6_000
    held_out_share: float = 0.02
    batch_tokens: int = 900
    position_learning_rate: float = 1e-3
    complete_share: float = 0.45
    table_share: float = 0.4
    last_weight: float = 1.0
    last_share: float = 0.25


class Conversion:
    """Trains the local lower layers of a root in stages: closed form, distillation, mixer, ladder.

    local and ladder are what it makes. Stages that the checkpoints hold are not trained again.
    """

    def __init__(
        self,
        root: Root,
        corpus: TrainingCorpus,
        settings: ConvertSettings,
        precision: Precision,
        reporter: Reporter,
        checkpoints: CheckpointStore,
    ) -> None:
        full = root.checkpoint_lower().to(precision.device)
        norm = full.layers[-1].output_norm
        assert isinstance(norm, LayerNorm)
        self._norm_at_cut = None if full.architecture.pre_norm else norm
        self.local = LocalLower.from_full(full, root.config)
        self._teacher = Teacher(full, root.upper.to(precision.device), precision)
        self._positions = position_features(full, root.config.max_tokens)
        self._config, self._corpus, self._settings = root.config, corpus, settings
        self._tokens = settings.tokens_for(full.architecture.layers, full.architecture.hidden)
        self._precision, self._reporter, self._checkpoints = precision, reporter, checkpoints
        self._held_out = corpus.held_out_batches(min(settings.held_out_tokens, settings.ridge_tokens // 10))
        self._frequencies = FragmentFrequencies.of(
            corpus.sequences_to_count(settings.counted_tokens), root.config.n, root.config.missing_id
        )
        self._table = SimulatedTable(self._frequencies, ALPHA)
        self.ladder = root.config.ladder

    def run(self) -> dict[str, Any]:
        """Train every stage, and return the variance left unexplained on held-out text after each."""
        report = self._closed_form()
        if self._tokens.distil:
            self._distil()
            report["distilled"] = self._measure(self._levels)
        if self._tokens.mixer:
            self._mix()
            report["mixer"] = self._measure(self._levels)
        report["ladder"] = self._choose_ladder()
        table = self._table.level_function(leave_one_out=False)
        report["table"] = {f"alpha_{ALPHA:g}": report["ladder"][report["ladder"]["kept"]]}
        report["mixed"] = measure_mixed(
            self.local, self._teacher, self._held_out, self._config, self._reporter, table
        )
        return report

    def _closed_form(self) -> dict[str, Any]:
        """Fit the closed form and return the report so far; both from the checkpoint if there is one."""
        checkpoint = self._checkpoints.load("closed form")
        if checkpoint is not None:
            load_lower_state_dict(self.local, checkpoint.tensors)
            return checkpoint.state
        complete = dict(list(self._levels.items())[:1])
        tokens = {"distil_tokens": self._tokens.distil, "mixer_tokens": self._tokens.mixer}
        report: dict[str, Any] = {"settings": asdict(self._settings) | tokens}
        report["unconverted"] = self._measure(complete)
        settings = self._settings
        batches = self._corpus.train_batches(settings.ridge_tokens, stage=CLOSED_FORM_STAGE)
        RidgeFit(
            local=self.local,
            teacher=self._teacher,
            position_features=self._positions,
            config=self._config,
            precision=self._precision,
            misses=MissSampler(self._table, complete_share=0.0, table_share=0.6),
            penalty=settings.ridge_penalty,
            seed=settings.seed,
        ).fit(batches, self._reporter)
        report["closed_form"] = self._measure(self._levels)
        self._checkpoints.save("closed form", 1, lower_state_dict(self.local), report)
        return report

    def _distil(self) -> None:
        settings, corpus = self._settings, self._corpus
        sampler = BatchSampler(corpus, self._tokens.distil, DISTIL_STAGE)
        distillation = Distillation(
            self.local,
            self._teacher,
            self._config,
            self._variances(),
            MissSampler(self._table, settings.complete_share, settings.table_share),
            sampler,
            DistillationRates(
                settings.learning_rate,
                settings.position_learning_rate,
                settings.last_weight,
                settings.last_share,
            ),
        )
        budget = Budget(len(sampler), settings.distil_minutes)
        train_stage("distil", distillation, budget, self._reporter, self._checkpoints, self._evaluate)
        self.local.requires_grad_(False)

    def _mix(self) -> None:
        """Train a mixer on cached states and set it; or set the one that a finished stage left."""
        settings, config = self._settings, self._config
        mixer = new_mixer(config.hidden, settings.seed).to(self._precision.device)
        finished = load_finished(self._checkpoints, "mixer")
        if finished is None:
            cached = cache_states(
                self.local,
                self._teacher,
                self._corpus.train_batches(self._tokens.mixer, stage=MIXER_STAGE),
                mixer_views(self._frequencies),
                config,
                settings.seed,
                self._reporter,
            )
            norm = self._norm_at_cut or fitted_norm(cached)
            mixer.output_norm.load_state_dict(norm.state_dict())
            training = MixerTraining(mixer, self._teacher, cached, self._variances(), settings.seed)
            train_stage("mixer", training, Budget(len(training)), self._reporter, self._checkpoints)
        else:
            mixer.load_state_dict(with_prefix(finished.tensors, "mixer."))
        self.local.mixer = mixer.requires_grad_(False).eval()

    def _choose_ladder(self) -> dict[str, Any]:
        """Set the ladder whose table has the least error after the last layer; of equal ones, the shorter."""
        ladders = ladders_to_choose(self._config.n)
        tables = {name: SimulatedTable(self._frequencies, ALPHA, one) for name, one in ladders.items()}
        found = self._measure(
            {name: table.level_function(leave_one_out=False) for name, table in tables.items()}
        )
        best = min(found, key=lambda name: found[name]["last"])
        self.ladder, self._table = ladders[best], tables[best]
        return {"alpha": ALPHA, "kept": best, **found}

    def _variances(self) -> Variances:
        batches = self._corpus.train_batches(self._settings.ridge_tokens, stage=CLOSED_FORM_STAGE)
        few = batches[:BATCHES_FOR_VARIANCE]
        return measure_variances(self._teacher, few, self._config, self._reporter)

    def _evaluate(self) -> dict[str, float]:
        """Metrics on a little held-out text, with complete fragments and with uni-grams alone."""
        names = list(self._levels)
        levels = {name: self._levels[name] for name in (names[0], names[-1])}
        few = first_batches(self._held_out, self._settings.evaluation_tokens)
        found = self._measure(levels, few)
        return {f"unexplained_{name}_{at}": found[name][at] for name in levels for at in ("cut", "last")}

    @property
    def _levels(self) -> dict[str, LevelFunction]:
        return level_functions(self._config.n)

    def _measure(
        self, levels: dict[str, LevelFunction], batches: list[list[TokenSequence]] | None = None
    ) -> dict[str, dict[str, Any]]:
        held_out = batches or self._held_out
        return measure(self.local, self._teacher, held_out, self._config, self._reporter, levels)
