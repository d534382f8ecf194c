"""One training of the accuracy benchmarks, and what its model answers to the test split."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.methods import Inputs, Method, evaluate_full, train_full
from benchmarks.accuracy.tenants import Subset
from inference.cascade.dispatcher import AnswerPolicy
from inference.hplm.fragments import DEFAULT_N
from inference.hplm.root import LOWER_FILE, UPPER_FILE
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.fine_tune import fine_tune
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings


@dataclass(frozen=True, slots=True)
class Shape:
    """How a root is cut: its layers below and above the cut, and the tokens of its fragments. A root of fewer
    layers than the checkpoint has the checkpoint's first ones."""

    lower: int = 3
    upper: int = 3
    n: int = DEFAULT_N

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """The shape of a cut, such as "3+2". Raises ValueError."""
        lower, upper = map(int, text.split("+"))
        return cls(lower, upper)

    @property
    def layers(self) -> int:
        """Of the root."""
        return self.lower + self.upper

    def __str__(self) -> str:
        return f"{self.lower}+{self.upper}"


@dataclass(frozen=True, slots=True)
class Training:
    """A method with its settings, on a dataset or on a tenant's subset of it."""

    method: Method
    dataset: Dataset
    settings: FineTuneSettings
    shape: Shape = field(default_factory=Shape)
    subset: Subset | None = None

    @property
    def has_pet(self) -> bool:
        """Whether the product's own fine-tuning makes the model; the head alone is a PET without parts."""
        return self.method.trained in ("pet", "head")


def run_training(
    training: Training, inputs: Inputs, out: Path, reporter: Reporter, checkpoints: CheckpointStore
) -> dict[str, Any]:
    """Train, write the model into the new folder `out`, and return {dev, learning_rate, best_epoch, epochs,
    bytes}, of a model with a PET also {root_bytes}. The test file is not read."""
    if not training.has_pet:
        return train_full(
            training.method, inputs, training.settings, reporter, out=out, checkpoints=checkpoints
        )
    report = fine_tune(
        root=inputs.root,
        plots=inputs.plots,
        dataset=DatasetFiles(inputs.files.train, inputs.files.dev, test=inputs.files.dev),
        task=inputs.task,
        out=out,
        settings=training.settings,
        reporter=reporter,
        lower=inputs.lower,
        checkpoints=checkpoints,
    )
    return {
        "dev": report["dev"]["value"],
        "learning_rate": report["learning_rate"],
        "best_epoch": report["best_epoch"],
        "epochs": len(report["epochs"]),
        "bytes": report["bytes"],
        "root_bytes": sum((inputs.root / name).stat().st_size for name in (LOWER_FILE, UPPER_FILE)),
    }


def run_test(
    training: Training, inputs: Inputs, model: Path, reporter: Reporter, tables: Sequence[Path] | None = None
) -> dict[str, Any]:
    """{test} of the model that `run_training` wrote. With a PET also {levels, hits}: the metrics of
    `level_metrics`, and the shares of the tokens by what the tables held of them.

    tables: to read it through, if not those of its training.
    """
    if not training.has_pet:
        metric = evaluate_full(training.method, inputs, training.settings, reporter, model=model)
        return {"test": metric}
    report = evaluate(
        root=inputs.root,
        plots=list(tables or inputs.plots),
        hplm=model,
        dataset_file=inputs.files.test,
        task=inputs.task,
        reporter=reporter,
        lower=inputs.lower,
        train_file=inputs.files.train,
        settings=EvaluateSettings(
            device=training.settings.device,
            precision=training.settings.precision,
            policy=AnswerPolicy(training.settings.lower_mode),
        ),
        scratch=model.parent,
    )
    return {"test": report["value"], "levels": report["levels"], "hits": report["plot_hits"]}
