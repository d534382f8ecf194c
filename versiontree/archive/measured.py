"""What an archive says of how a version was made and what was measured: pages count on its types."""

from collections.abc import Mapping
from typing import Any, Final

from versiontree.archive.layout import Node, refused
from versiontree.chains import COMPACTS
from versiontree.models.job import JobKind

FIGURES: Final = ("precision", "recall", "f1", "support")
"""What an evaluation says of each label."""
_CONFIG: Final[dict[str, type]] = {
    "dataset": dict, "corpus": dict, "settings": dict, "labels": list, "warnings": list, COMPACTS: list,
    "auto_promote": bool, "vectors": str,
}  # fmt: skip
_REPORTED: Final[dict[str, type]] = {"settings": dict}
_TUNED: Final[dict[str, type]] = {"epochs": list, "trials": list}
_EVALUATED: Final[dict[str, type | tuple[type, ...]]] = {
    "metric": str, "value": (int, float), "majority_baseline": (int, float), "per_label": dict,
    "confusion": dict, "class_counts": dict, "plot_hits": dict,
}  # fmt: skip


def made_check(node: Node) -> None:
    """Raises ``invalid_archive`` for a config or metrics that no job of this product wrote."""
    _check_types(node.config, _CONFIG, f"the config of {node.name}")
    for name in ("labels", "warnings"):
        if not all(isinstance(word, str) for word in node.config.get(name) or ()):
            raise refused(f"{name} in the config of {node.name} are not texts.")
    alpha = node.config.get("alpha", 0)
    if not _is_number(alpha) or not 0 <= alpha <= 100:
        raise refused(f"alpha in the config of {node.name} is not a share in %.")
    reports = node.metrics
    if reports.keys() - set(JobKind.values) or not all(isinstance(one, dict) for one in reports.values()):
        raise refused(f"The metrics of {node.name} are not those of jobs.")
    of = f"the metrics of {node.name}"
    for report in reports.values():
        _check_types(report, _REPORTED, of)
    _check_types(reports.get(JobKind.FINE_TUNE, {}), _TUNED, of)
    _check_evaluation(reports.get(JobKind.EVALUATE, {}), of)


def _check_evaluation(report: Mapping[str, Any], of: str) -> None:
    _check_types(report, _EVALUATED, of)
    for row in (report.get("per_label") or {}).values():
        if not isinstance(row, dict) or not all(_is_number(row.get(name)) for name in FIGURES):
            raise refused(f"per_label in {of} lacks figures.")
    counts = (report.get("class_counts") or {}).values()
    if not all(_is_number(count) and count >= 0 for count in counts) or (counts and not any(counts)):
        raise refused(f"class_counts in {of} are no counts.")
    confusion = report.get("confusion") or {}
    labels, rows = confusion.get("labels", []), confusion.get("rows", [])
    square = isinstance(labels, list) and isinstance(rows, list) and len(rows) == len(labels)
    if not square or not all(isinstance(label, str) for label in labels):
        raise refused(f"confusion in {of} is no table.")
    for row in rows:
        if not isinstance(row, list) or len(row) != len(labels) or not all(map(_is_number, row)):
            raise refused(f"confusion in {of} is no table.")


def _check_types(found: Mapping[str, Any], wanted: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    for name, kind in wanted.items():
        value = found.get(name)
        if value is None:
            continue
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise refused(f"{name} in {where} is not what it should be.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
