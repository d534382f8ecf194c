"""What was measured of a version, as its page draws it. Whatever a job did not report is left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.presenters.charts import LEVELS, Bar, ChartPart, Curve, counted_bars, curve_of, level_parts
from frontend.presenters.wording import metric_words, plain, words
from versiontree.tree.selectors.versions import as_mapping, is_number

FIGURES = (
    "macro_f1", "exact", "precision", "recall", "word_accuracy", "spearman", "exact_match", "answered",
    "majority_baseline", "word_baseline", "mean_absolute_error", "mean_answer_error",
)  # fmt: skip
"""What stands beside the headline where it was measured, in this order."""

_BASELINES = {"majority_baseline", "word_baseline"}
"""Figures in the measure of the headline."""
_NO_SHARE = {"pearson", "spearman", "mean_absolute_error", "mean_answer_error"}
SHADES = 5
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
"""How long the fragments are that a report tells of; their hues are those of `LEVELS` where they are such."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A name and a written figure."""

    name: str
    figure: str


@dataclass(frozen=True, slots=True)
class LabelRow:
    """How well one label is found, on the test split."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, slots=True)
class Cell:
    """How many rows of a label were `answered` with another; `shade` 0..5 is its share of these rows."""

    answered: str
    count: int
    shade: int
    right: bool


@dataclass(frozen=True, slots=True)
class ConfusionRow:
    """One expected label and what was answered for it."""

    label: str
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Expected labels down, answered ones across."""

    labels: list[str]
    rows: list[ConfusionRow]


@dataclass(frozen=True, slots=True)
class Trial:
    """One try of the search: what was tried and how well it did on dev, as it is written."""

    settings: str
    epochs: str
    dev: str
    best: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """What an evaluation found on the test split."""

    name: str
    value: str
    figures: list[Figure]
    labels: list[LabelRow]
    confusion: Confusion | None
    hits: list[ChartPart]
    class_bars: list[Bar]


def measured_of(metrics: Mapping[str, Any]) -> Measured | None:
    """The page's view of an evaluation, with the class counts of what was learnt from; nothing before there
    was one."""
    if "metric" not in metrics or metrics.get("value") is None:
        return None
    name = str(metrics["metric"])
    return Measured(
        name=metric_name(metrics),
        value=written(name, metrics["value"]),
        figures=_figures(metrics),
        labels=label_rows(metrics),
        confusion=confusion_of(metrics.get("confusion") or {}),
        hits=hit_parts(metrics.get("plot_hits") or {}),
        class_bars=counted_bars(metrics.get("class_counts") or {}),
    )


def metric_name(metrics: Mapping[str, Any]) -> str:
    """The written name of the headline metric; empty when there is none."""
    return metric_words(str(metrics.get("metric", "")))


def written(name: str, value: float) -> str:
    """A figure as people read it: shares in %, the others as they are."""
    return f"{value:.3f}" if name in _NO_SHARE else f"{value:.1%}"


def label_rows(metrics: Mapping[str, Any]) -> list[LabelRow]:
    """The figures of each label, the most frequent first."""
    rows = [
        LabelRow(label, row["precision"], row["recall"], row["f1"], row["support"])
        for label, row in (metrics.get("per_label") or {}).items()
    ]
    return sorted(rows, key=lambda row: (-row.support, row.label))


def confusion_of(found: Mapping[str, Any]) -> Confusion | None:
    """The table, each cell shaded by its share of the expected label's rows."""
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
    """Which share of the test text's fragments was found at which level; shares or counts."""
    amounts = {level: float(hits[level]) for level in LEVELS if is_number(hits.get(level)) and hits[level]}
    return level_parts(amounts, sum(amounts.values()))


def learning_curves(report: Mapping[str, Any]) -> list[Curve]:
    """Loss and dev metric over the epochs of a fine-tuning."""
    epochs = [epoch for epoch in report.get("epochs") or [] if isinstance(epoch, Mapping)]
    named = (("loss", "Loss by epoch"), ("dev", "Dev metric by epoch"))
    series = [(name, [epoch[key] for epoch in epochs if is_number(epoch.get(key))]) for key, name in named]
    return [curve_of(name, values) for name, values in series if len(values) > 1]


def trials_of(report: Mapping[str, Any]) -> list[Trial]:
    """The search: each try with its settings, the best first on dev."""
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
                f"{words(name)} {plain(value)}"
                for name, value in trial.items()
                if name not in {"dev", "epochs", "best_epoch"} and isinstance(value, int | float | str)
            ),
            epochs=_epochs(trial.get("epochs")),
            dev=written(metric, trial["dev"]) if is_number(trial.get("dev")) else "–",
            best=best is not None and trial.get("dev") == best,
        )
        for trial in ranked
    ]


def _figures(metrics: Mapping[str, Any]) -> list[Figure]:
    headline = str(metrics["metric"])
    told = [
        Figure(_title(metric_words(name)), written(headline if name in _BASELINES else name, metrics[name]))
        for name in FIGURES
        if is_number(metrics.get(name))
    ]
    more = [
        ("rows", "Test rows", "{:,}"),
        ("truncated_share", "Truncated rows", "{:.1%}"),
        *([("imbalance", "Imbalance", "{:,.1f} to 1")] if metrics.get("class_counts") else []),
    ]
    return told + [
        Figure(name, form.format(metrics[key])) for key, name, form in more if is_number(metrics.get(key))
    ]


def _title(name: str) -> str:
    """With a capital at its beginning, the other letters as they are: macro-F1 -> Macro-F1."""
    return name[:1].upper() + name[1:]


def by_level_order(name: str) -> int:
    """Where a level stands, from the whole fragment down; what is no level comes last."""
    return list(LEVEL_NAMES).index(name) if name in LEVEL_NAMES else len(LEVEL_NAMES)


def _cell(answered: str, count: int, total: int, right: bool) -> Cell:
    shade = -(-SHADES * count // total) if total else 0
    return Cell(answered, count, min(shade, SHADES), right)


def _epochs(found: Any) -> str:
    """How many epochs a try took; empty where it does not list them."""
    return str(len(found)) if isinstance(found, list) else ""
