"""What a version has to say of itself."""

from versiontree.tree.models import Version
from versiontree.tree.selectors.versions import version_warnings


def test_every_warning_is_told_once() -> None:
    metrics = {"convert": {"warnings": ["a", "b"]}, "evaluate": {"warnings": None}, "grow": None}
    assert version_warnings(Version(config={"warnings": ["b"]}, metrics=metrics)) == ["b", "a"]


def test_what_is_no_list_is_no_warning() -> None:
    assert version_warnings(Version(config={"warnings": "b"}, metrics={})) == []
