"""The metrics of a version. Metrics that no job reported are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.text import capfirst

from frontend.presenters.charts import (
    LEVELS,
    Bar,
    ChartPart,
    LineChart,
    counted_bars,
    level_parts,
    line_chart,
)
from frontend.presenters.formatting import (
    key_label,
    metric_figure,
    metric_interval,
    metric_label,
    metric_name,
    metric_value,
    setting_value,
)
from versiontree.tree.selectors.versions import as_mapping, is_number

FIGURES: tuple[str, ...] = (
    "macro_f1", "exact", "precision", "recall", "word_accuracy", "spearman", "exact_match", "answered",
    "majority_baseline", "word_baseline", "mean_absolute_error", "mean_answer_error",
)  # fmt: skip
"""Metrics shown beside the main metric, in this order."""

_BASELINES = {"majority_baseline", "word_baseline"}
"""Baselines, which are formatted like the main metric."""
SHADES = 5
WORTH_SAYING = 0.01
"""Share of truncated rows from which they are shown."""
LEVEL_NAMES = {
    "5-gram": "5-gram",
    "4-gram": "4-gram",
    "trigram": "tri-gram",
    "bigram": "bi-gram",
    "left_bigram": "left bi-gram",
    "right_bigram": "right bi-gram",
    "unigram": "uni-gram",
    "computed": "computed",
}
"""Labels of lookup levels in reports, longest fragment first."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A label and a formatted metric."""

    name: str
    figure: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the confusion matrix. `shade` in 0..5 is its share of the rows of the expected label."""

    answered: str
    count: int
    shade: int
    right: bool


@dataclass(frozen=True, slots=True)
class ConfusionRow:
    """A row of the confusion matrix: an expected label and its answers."""

    label: str
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion matrix: expected labels down, answered labels across."""

    labels: list[str]
    rows: list[ConfusionRow]


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial of the hyperparameter search, with its formatted metric on dev."""

    settings: str
    epochs: str
    dev: str
    best: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of an evaluation on the test split. `interval` is empty where none is known."""

    name: str
    value: str
    interval: str
    figures: list[Figure]
    labels: list[dict[str, Any]]
    confusion: Confusion | None
    hits: list[ChartPart]
    class_bars: list[Bar]


def measured_of(metrics: Mapping[str, Any]) -> Measured | None:
    """Return the result of an evaluation with the class counts of its training data; None without one."""
    if "metric" not in metrics or metrics.get("value") is None:
        return None
    name = str(metrics["metric"])
    return Measured(
        name=metric_name(metrics),
        value=metric_figure(name, metrics["value"], metrics.get("rows")),
        interval=metric_interval(name, metrics["value"], metrics.get("rows")),
        figures=_figures(metrics),
        labels=label_rows(metrics),
        confusion=confusion_of(metrics.get("confusion") or {}),
        hits=hit_parts(metrics.get("plot_hits") or {}),
        class_bars=counted_bars(metrics.get("class_counts") or {}),
    )


def label_rows(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics by label with `label`, most frequent first."""
    rows = [{**row, "label": label} for label, row in (metrics.get("per_label") or {}).items()]
    return sorted(rows, key=lambda row: (-row["support"], row["label"]))


def confusion_of(found: Mapping[str, Any]) -> Confusion | None:
    """Return the confusion matrix; None if the report has none."""
    labels: Sequence[str] = found.get("labels", [])
    rows: Sequence[Sequence[int]] = found.get("rows", [])
    if not labels or len(rows) != len(labels):
        return None
    return Confusion(
        list(labels),
        [
            ConfusionRow(
                label,
                [_cell(labels[place], count, sum(row), place == at) for place, count in enumerate(row)],
            )
            for at, (label, row) in enumerate(zip(labels, rows, strict=True))
        ],
    )


def hit_parts(hits: Mapping[str, Any]) -> list[ChartPart]:
    """Return the share of the test split's fragments by lookup level."""
    amounts = {level: float(hits[level]) for level in LEVELS if is_number(hits.get(level)) and hits[level]}
    return level_parts(amounts, sum(amounts.values()))


def learning_curves(report: Mapping[str, Any]) -> list[LineChart]:
    """Return loss, dev loss and dev metric by epoch of a fine-tuning. Epoch 0 is before training."""
    epochs = [epoch for epoch in report.get("epochs") or [] if isinstance(epoch, Mapping)]
    dev_loss = "Dev loss by epoch" + (
        ", from before training" if epochs and epochs[0].get("epoch") == 0 else ""
    )
    named = (("loss", "Loss by epoch"), ("dev_loss", dev_loss), ("dev", "Dev metric by epoch"))
    found = []
    for key, name in named:
        values = {
            f"epoch {epoch.get('epoch', place)}": epoch[key]
            for place, epoch in enumerate(epochs, 1)
            if is_number(epoch.get(key))
        }
        if len(values) > 1:
            line = name.partition(" by ")[0].lower()
            found.append(line_chart(name, {line: list(values.values())}, at=list(values)))
    return found


def trials_of(report: Mapping[str, Any]) -> list[Trial]:
    """Return the trials of the hyperparameter search, best first."""
    trials = [trial for trial in report.get("trials") or [] if isinstance(trial, Mapping)]
    scores = [trial["dev"] for trial in trials if is_number(trial.get("dev"))]
    best = max(scores, default=None)
    metric = str(as_mapping(report.get("dev")).get("metric", ""))
    ranked = sorted(
        trials, key=lambda trial: trial["dev"] if is_number(trial.get("dev")) else -1.0, reverse=True
    )
    return [
        Trial(
            settings=", ".join(
                f"{key_label(name)} {setting_value(value)}"
                for name, value in trial.items()
                if name not in {"dev", "epochs", "best_epoch"} and isinstance(value, int | float | str)
            ),
            epochs=_epochs(trial.get("epochs")),
            dev=metric_value(metric, trial["dev"]) if is_number(trial.get("dev")) else "–",
            best=best is not None and trial.get("dev") == best,
        )
        for trial in ranked
    ]


def _figures(metrics: Mapping[str, Any]) -> list[Figure]:
    main, shown = str(metrics["metric"]), FIGURES
    if "mean_answer_error" in metrics:  # of numbers; the same number correlates with nothing
        shown = tuple(name for name in FIGURES if name not in _BASELINES)
    figures = [
        Figure(
            capfirst(metric_label(name)), metric_value(main if name in _BASELINES else name, metrics[name])
        )
        for name in shown
        if is_number(metrics.get(name))
    ]
    rows, cut = metrics.get("rows"), metrics.get("truncated_share")
    if is_number(rows):
        figures.append(Figure("Test rows", f"{rows:,}"))
    if is_number(cut) and cut >= WORTH_SAYING:
        figures.append(Figure("Truncated rows", f"{cut:.1%}"))
    return figures


def level_order(name: str) -> int:
    """Return the sort key of a lookup level: longest fragment first, unknown names last."""
    return list(LEVEL_NAMES).index(name) if name in LEVEL_NAMES else len(LEVEL_NAMES)


def _cell(answered: str, count: int, total: int, right: bool) -> Cell:
    shade = -(-SHADES * count // total) if total else 0
    return Cell(answered, count, min(shade, SHADES), right)


def _epochs(found: Any) -> str:
    """Return the number of epochs of a trial; empty if unknown."""
    return str(len(found)) if isinstance(found, list) else ""
