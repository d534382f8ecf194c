"""What is read of versions that another release or another site made."""

from typing import Any

import pytest

from versiontree.tree.models import Root, RootKind, Version
from versiontree.tree.selectors.evaluations import own_test_sha256
from versiontree.tree.selectors.versions import version_warnings
from versiontree.tree.services.settings_inheritance import (
    config_inherited,
    settings_inherited,
    start_warnings,
)
from versiontree.tree.training_settings import SettingValue


def test_config_that_concerns_one_version_alone_is_not_inherited() -> None:
    config = {
        "imported": {"name": "x", "number": 3},
        "warnings": ["short"],
        "grown": {"max_fragments": 1},
        "compacts": [1],
        "alpha": 50,
    }
    assert config_inherited(Version(config=config)) == {"alpha": 50}


def test_settings_that_this_release_does_not_know_are_left_behind() -> None:
    root = Root(name="bert")
    settings = {"lora": 24, "adapter": -1, "device": "cuda", "epochs": "many"}
    imported = Version(root=root, config={"settings": settings})
    assert settings_inherited(imported, {"epochs": 5}) == {"lora": 24, "epochs": 5}
    assert settings_inherited(Version(root=root, config={}), None) == {}


@pytest.mark.parametrize(
    ("before", "now", "task", "differences"),
    [
        ({"lora": 24}, {"lora": 48}, "classification", ["another shape (lora 48 instead of 24)"]),
        (
            {"lora": 24, "adapter": 8},
            {"lora": 24, "norms": False},
            "tagging",
            ["another shape (adapter 0 instead of 8, norms false instead of true)"],
        ),
        (
            {"pooling": "cls"},
            {"pooling": "cls_mean"},
            "classification",
            ["(pooling cls_mean instead of cls)"],
        ),
        ({"pooling": "cls"}, {"pooling": "cls_mean"}, "tagging", []),
        ({"epochs": 3}, {"lora": 16, "adapter": 0, "biases": True, "norms": True}, "classification", []),
    ],
)
def test_update_warns_of_settings_that_training_cannot_continue_from(
    before: dict[str, SettingValue], now: dict[str, SettingValue], task: str, differences: list[str]
) -> None:
    version = Version(root=Root(name="bert"), number=1, config={"settings": before})
    warnings = start_warnings(version, now, task)
    assert [said in warning for said, warning in zip(differences, warnings, strict=True)] == [True] * len(
        differences
    )


def test_a_generative_update_warns_where_its_lora_cannot_continue_and_only_there() -> None:
    root = Root(name="smol", kind=RootKind.DECODER)
    before = Version(root=root, number=3, config={"settings": {"projections": "attention"}})
    (warning,) = start_warnings(before, {"projections": "query_value", "lora": 8}, "chat")
    assert "not from version 3" in warning
    assert "lora 8 instead of 16, projections query_value instead of attention" in warning
    same: dict[str, SettingValue] = {"projections": "attention", "lora": 16, "alpha": 8.0, "epochs": 2}
    assert start_warnings(before, same, "chat") == []
    (warning,) = start_warnings(before, {"projections": "attention", "output_adapter": 32}, "chat")
    assert "output_adapter 32 instead of 0" in warning
    by_default = Version(root=root, number=1, config={"settings": {"projections": "all"}})
    assert start_warnings(by_default, {}, "generation") == []


@pytest.mark.parametrize("config", [{}, {"dataset": {}}, {"dataset": {"splits": "a"}}, {"dataset": ["a"]}])
def test_version_without_splits_has_no_test_rows(config: dict[str, Any]) -> None:
    assert own_test_sha256(Version(config=config)) == ""


def test_the_test_rows_are_those_that_the_version_names() -> None:
    assert own_test_sha256(Version(config={"dataset": {"splits": {"test": "a" * 64}}})) == "a" * 64


def test_every_warning_is_told_once() -> None:
    metrics = {"convert": {"warnings": ["a", "b"]}, "evaluate": {"warnings": None}, "grow": None}
    assert version_warnings(Version(config={"warnings": ["b"]}, metrics=metrics)) == ["b", "a"]


def test_warnings_that_are_no_list_are_ignored() -> None:
    assert version_warnings(Version(config={"warnings": "b"}, metrics={})) == []
