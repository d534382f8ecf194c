"""The config and metrics of an archive have the types that pages rely on."""

from typing import Any

import pytest

from tenants.base.errors import ErrorCode
from tests.unit.tenants.files import refused
from versiontree.transfer.archive.layout import Node
from versiontree.transfer.archive.metrics import imported_metrics, node_check
from versiontree.tree.models.version import VersionKind

SOUND: dict[str, Any] = {
    "fine_tune": {
        "settings": {"epochs": 1},
        "epochs": [{"loss": 0.5}],
        "dev": {"metric": "f1", "value": 0.5},
        "samples": [{"text": "a"}],
    },
    "evaluate": {
        "value": None,
        "per_label": {"yes": {"precision": 1, "recall": 1, "f1": 1, "support": 3}},
        "class_counts": {"yes": 3, "no": 0},
        "confusion": {"labels": ["yes"], "rows": [[3]]},
        "against": {"version": 1},
    },
    "build_plot": {"rows": 5, "coverage": {"trigram": 0.5}},
    "convert": {"closed_form": {"unexplained": {"cut": 0.2}}},
}
WRONG_METRICS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("fine_tune", {"settings": 7}, "is invalid"),
    ("fine_tune", {"cascade": [0.9]}, "is invalid"),
    ("fine_tune", {"warnings": "x"}, "is invalid"),
    ("fine_tune", {"dev": {"metric": "f1", "value": "abc"}}, "is invalid"),
    ("fine_tune", {"dev": {"per_label": {"a": 1}}}, "lacks figures"),
    ("fine_tune", {"samples": [7]}, "are not texts"),
    ("evaluate", {"samples": [{"text": 7}]}, "are not texts"),
    ("evaluate", {"value": True}, "is invalid"),
    ("evaluate", {"levels": 0.9}, "is invalid"),
    ("evaluate", {"per_label": {"yes": {"f1": 1}}}, "lacks figures"),
    ("evaluate", {"class_counts": {"yes": 0}}, "not counts"),
    ("evaluate", {"class_counts": {"yes": -1, "no": 1}}, "not counts"),
    ("evaluate", {"confusion": {"labels": ["yes"], "rows": [7]}}, "not a table"),
    ("evaluate", {"confusion": {"labels": ["yes"], "rows": [[1, 2]]}}, "not a table"),
    ("evaluate", {"confusion": {"labels": [7], "rows": [[1]]}}, "not a table"),
    ("evaluate", {"confusion": {"labels": ["yes"], "rows": [["1"]]}}, "not a table"),
    ("convert", {"closed_form": ["trigram"]}, "is invalid"),
    ("further_pretrain", {"before": {"unexplained": ["trigram"]}}, "is invalid"),
    ("build_plot", {"rows": "many"}, "is invalid"),
    ("build_plot", {"coverage": 0.5}, "is invalid"),
    ("compact", {"coverage": {"trigram": "half", "bigram": 0.5}}, "not numbers"),
    ("grow", {"levels": [1]}, "is invalid"),
    ("else", {}, "not those of jobs"),
)
WRONG_CONFIGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"labels": [1]}, "not texts"),
    ({"warnings": [1]}, "not texts"),
    ({"labels": None}, "is invalid"),
    ({"dataset": "x"}, "is invalid"),
    ({"compacts": None}, "is invalid"),
    ({"auto_promote": 1}, "is invalid"),
    ({"alpha": 101}, "not a share"),
    ({"budget_mb": 0}, "not a size"),
)


def node(*, config: dict[str, Any] | None = None, metrics: dict[str, Any] | None = None) -> Node:
    """A model in an archive."""
    return Node(VersionKind.HPLM, "mood", 1, {}, config=config or {}, metrics=metrics or {})


def test_config_and_metrics_of_the_known_types_are_accepted() -> None:
    config = {"labels": ["yes"], "dataset": {"id": 1}, "alpha": 100, "auto_promote": True}
    node_check(node(config=config, metrics=SOUND))


@pytest.mark.parametrize(("kind", "changes", "words"), WRONG_METRICS)
def test_metrics_of_other_types_are_refused(kind: str, changes: dict[str, Any], words: str) -> None:
    metrics = {**SOUND, kind: {**SOUND.get(kind, {}), **changes}}
    error = refused(ErrorCode.INVALID_ARCHIVE, lambda: node_check(node(metrics=metrics)))
    assert words in error.message


@pytest.mark.parametrize(("config", "words"), WRONG_CONFIGS)
def test_config_of_other_types_is_refused(config: dict[str, Any], words: str) -> None:
    error = refused(ErrorCode.INVALID_ARCHIVE, lambda: node_check(node(config=config)))
    assert words in error.message


def test_comparison_with_a_version_of_the_other_site_is_not_imported() -> None:
    assert "against" not in imported_metrics(node(metrics=SOUND))["evaluate"]
