"""One training of the accuracy benchmarks, and what its model answers to the test split."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.methods import Inputs, Method, evaluate_full, train_full
from benchmarks.accuracy.tenants import Subset
from inference.cascade.dispatcher import AnswerPolicy
from inference.hplm.artifact_files import read_json
from inference.hplm.fragments import DEFAULT_N
from inference.hplm.root import LOWER_FILE, UPPER_FILE
from workers.training.cascade.calibration import expected_calibration_error, reliability
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.evaluation_answers import FILE
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

    @property
    def layers(self) -> int:
        """Of the root."""
        return self.lower + self.upper

    def __str__(self) -> str:
        return f"{self.lower}+{self.upper}" + ("" if self.n == DEFAULT_N else f", {self.n}-grams")


@dataclass(frozen=True, slots=True)
class Training:
    """A method with its settings, on a dataset or on a tenant's subset of it. on_root: below the root, also
    if the dataset has a domain."""

    method: Method
    dataset: Dataset
    settings: FineTuneSettings
    shape: Shape = field(default_factory=Shape)
    subset: Subset | None = None
    on_root: bool = False

    @property
    def domain(self) -> str | None:
        """That of the model's branch, if it has one."""
        return self.dataset.domain if self.dataset.has_domain and not self.on_root else None

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
    """{test} of the model that `run_training` wrote. With a PET also {levels, hits, rows, ece}: the metrics
    of `level_metrics`, the shares of the tokens by what the tables held of them, the number of test rows, and
    the expected calibration error of the confidences that are served (None for numbers).

    tables: to read it through, if not those of its training.
    """
    if not training.has_pet:
        metric = evaluate_full(training.method, inputs, training.settings, reporter, model=model)
        return {"test": metric}
    by_default = training.settings.lower_mode == "table"
    with tempfile.TemporaryDirectory(dir=model.parent) as folder:
        answers = Path(folder) / "answers"
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
                policy=AnswerPolicy.CASCADE if by_default else AnswerPolicy.FULL,
            ),
            scratch=model.parent,
            answers=answers,
        )
        ece = _calibration_error(answers / FILE)
    found = {"test": report["value"], "levels": report["levels"], "hits": report["plot_hits"]}
    return found | {"rows": report["rows"], "ece": ece}


def _calibration_error(answers: Path) -> float | None:
    """Of the confidences of these answers, in ten bins of equal mass; None for numbers, which have none."""
    found = read_json(answers)
    judged = [pair for pair in zip(found["score"], found["right"], strict=True) if None not in pair]
    if not judged:
        return None
    confidences, right = zip(*judged, strict=True)
    return expected_calibration_error(reliability(confidences, right))
