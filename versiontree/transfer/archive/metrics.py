"""Validate the types in the config and metrics of an archive, on which pages rely."""

from collections.abc import Mapping
from typing import Any, Final

from versiontree.jobs.models import JobKind
from versiontree.transfer.archive.layout import Node, invalid_archive
from versiontree.tree.promotion import AGAINST
from versiontree.tree.selectors.lineage import COMPACTS
from versiontree.tree.selectors.versions import is_number

FIGURES: Final = ("precision", "recall", "f1", "support")
"""The metrics of each label in an evaluation."""
FORMER_GROWTH: Final = "grow"
"""The kind of a job that no longer exists: versions made by one have a table, and can be imported."""
FIGURE: Final = (int, float)
"""A number or null: jobs report numbers that are not finite as null."""
Types = Mapping[str, type | tuple[type, ...]]
_CONFIG: Final[Types] = {
    "dataset": dict, "corpus": dict, "settings": dict, "labels": list, "warnings": list, COMPACTS: list,
    "auto_promote": bool, "quick": bool, "vectors": str,
}  # fmt: skip
_REPORTED: Final[Types] = {"settings": dict, "warnings": list}
_TABLE: Final[Types] = {"rows": FIGURE, "coverage": dict, "levels": dict, "vectors": str}
_DECODER: Final[Types] = {
    "family": str, "layers": int, "lower_layers": int, "hidden": int, "vocab": int, "max_tokens": int,
    "parameters": int, "chat_template": bool,
}  # fmt: skip
"""What is reported of a decoder."""
_BY_JOB: Final[Mapping[str, Types]] = {
    JobKind.CONVERT: {"unconverted": dict, "closed_form": dict, "mixer": dict, "distilled": dict, **_DECODER},
    JobKind.FURTHER_PRETRAIN: {"before": dict, "after": dict},
    JobKind.BUILD_PLOT: _TABLE,
    FORMER_GROWTH: _TABLE,
    JobKind.COMPACT: _TABLE,
    JobKind.FINE_TUNE: {
        "epochs": list,
        "trials": list,
        "dev": dict,
        "test": dict,
        "cascade": dict,
        "samples": list,
        "train_rows": int,
        "fitted_rows": int,
        "penalty": FIGURE,
    },
}
_STAGE: Final[Types] = {"unexplained": dict}
_STAGES: Final = ("unconverted", "closed_form", "mixer", "distilled", "before", "after")
_EVALUATED: Final[Types] = {
    "metric": str, "value": FIGURE, "majority_baseline": FIGURE, "per_label": dict, "confusion": dict,
    "class_counts": dict, AGAINST: dict, "plot_hits": dict, "levels": dict, "policy": str, "cascade": dict,
    "samples": list,
}  # fmt: skip


def node_check(node: Node) -> None:
    """Raise ``invalid_archive`` unless the config and metrics have the types that jobs write."""
    _check_types(node.config, _CONFIG, f"the config of {node.name}")
    for name in ("labels", "warnings"):
        if not all(isinstance(word, str) for word in node.config.get(name, ())):
            raise invalid_archive(f"{name} in the config of {node.name} are not texts.")
    alpha = node.config.get("alpha", 0)
    if not is_number(alpha) or not 0 <= alpha <= 100:
        raise invalid_archive(f"alpha in the config of {node.name} is not a share in %.")
    if not is_number(budget := node.config.get("budget_mb", 1)) or budget <= 0:
        raise invalid_archive(f"budget_mb in the config of {node.name} is not a size.")
    reports = node.metrics
    known = {*JobKind.values, FORMER_GROWTH}
    if reports.keys() - known or not all(isinstance(one, dict) for one in reports.values()):
        raise invalid_archive(f"The metrics of {node.name} are not those of jobs.")
    for kind, report in reports.items():
        _check_report(kind, report, f"the metrics of {node.name}")


def imported_metrics(node: Node) -> dict[str, Any]:
    """The metrics without what refers to the other site: the comparison with another version, and the rows
    of the dataset whose labels look wrong to a quick version."""
    found = {kind: report for kind, report in node.metrics.items() if kind != JobKind.QUICK}
    if JobKind.EVALUATE in found:
        found[JobKind.EVALUATE] = {
            name: value for name, value in found[JobKind.EVALUATE].items() if name != AGAINST
        }
    return found


def _check_report(kind: str, report: Mapping[str, Any], of: str) -> None:
    _check_types(report, _REPORTED, of)
    _check_types(report, _BY_JOB.get(kind, {}), of)
    if kind in (JobKind.EVALUATE, JobKind.FINE_TUNE):
        _check_samples(report, of)
    if kind == JobKind.EVALUATE:
        _check_evaluation(report, of)
    if kind == JobKind.FINE_TUNE:
        for split in ("dev", "test"):
            _check_evaluation(report.get(split, {}), of)
    if _BY_JOB.get(kind) is _TABLE and not all(map(is_number, report.get("coverage", {}).values())):
        raise invalid_archive(f"coverage in {of} has values that are not numbers.")
    if kind in (JobKind.CONVERT, JobKind.FURTHER_PRETRAIN):
        for stage in _STAGES:
            _check_types(report.get(stage, {}), _STAGE, of)


def _check_samples(report: Mapping[str, Any], of: str) -> None:
    for sample in report.get("samples", ()):
        if not isinstance(sample, dict) or not all(isinstance(text, str) for text in sample.values()):
            raise invalid_archive(f"samples in {of} are not texts.")


def _check_evaluation(report: Mapping[str, Any], of: str) -> None:
    _check_types(report, _EVALUATED, of)
    for row in report.get("per_label", {}).values():
        if not isinstance(row, dict) or not all(is_number(row.get(name)) for name in FIGURES):
            raise invalid_archive(f"per_label in {of} lacks figures.")
    counts = report.get("class_counts", {}).values()
    if not all(is_number(count) and count >= 0 for count in counts) or (counts and not any(counts)):
        raise invalid_archive(f"class_counts in {of} are not counts.")
    confusion = report.get("confusion", {})
    labels, rows = confusion.get("labels", []), confusion.get("rows", [])
    square = isinstance(labels, list) and isinstance(rows, list) and len(rows) == len(labels)
    if not square or not all(isinstance(label, str) for label in labels):
        raise invalid_archive(f"confusion in {of} is not a table.")
    for row in rows:
        if not isinstance(row, list) or len(row) != len(labels) or not all(map(is_number, row)):
            raise invalid_archive(f"confusion in {of} is not a table.")


def _check_types(found: Mapping[str, Any], wanted: Types, where: str) -> None:
    """Raise ``invalid_archive`` if a known key has a value of another type. Only numbers may be null."""
    for name, kind in wanted.items():
        value = found.get(name)
        if name not in found or (value is None and kind == FIGURE):
            continue
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise invalid_archive(f"{name} in {where} is invalid.")
