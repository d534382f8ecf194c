"""What workers learn from the manifest file."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.manifest import Manifest, ManifestError, ManifestWatcher

HPLM = {
    "tenant": "acme",
    "hplm": "mood",
    "version": 2,
    "digest": "ab" * 32,
    "task": "classification",
    "root": "cd" * 32,
    "plots": ["ef" * 32],
    "lower": "12" * 32,
    "pairs": False,
    "files": {"hplm.json": "00" * 32},
}


def publish(folder: Path, **changes: Any) -> Path:
    """Write the manifest as the web process does: under another name, then renamed."""
    data = {
        "format": 2,
        "revision": 1,
        "roots": {"cd" * 32: {"name": "mini", "path": "anything", "files": {}, "lower": "12" * 32}},
        "lowers": {"12" * 32: {"files": {"lower.json": "00" * 32}}},
        "hplms": {"acme/mood:2": HPLM},
    } | changes
    path = folder / "manifest.json"
    temporary = folder / "manifest.json.tmp"
    temporary.write_text(json.dumps(data))
    return temporary.replace(path)


def test_a_manifest_names_roots_and_versions(tmp_path: Path) -> None:
    manifest = Manifest.load(publish(tmp_path))
    served = manifest.find("acme", "mood", 2)
    assert served is not None
    assert (served.digest, served.plots) == ("ab" * 32, ("ef" * 32,))
    assert manifest.roots["cd" * 32].name == "mini"
    assert manifest.find("acme", "mood", 1) is None
    assert manifest.folder("hplm", served.digest) == tmp_path / "hplm" / "ab" / ("ab" * 32)


def test_tenants_have_weights_and_tables_have_names(tmp_path: Path) -> None:
    manifest = Manifest.load(publish(tmp_path, weights={"acme": 2}, tables={"ef" * 32: "medicine"}))
    assert (manifest.weight("acme"), manifest.weight("globex")) == (2.0, 1.0)
    assert manifest.tables["ef" * 32] == "medicine"


def test_in_an_older_manifest_all_weigh_the_same(tmp_path: Path) -> None:
    manifest = Manifest.load(publish(tmp_path))
    assert (manifest.weight("acme"), manifest.tables) == (1.0, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 1},
        {"lowers": None},
        {"hplms": {"x": {}}},
        {"revision": "many"},
        {"roots": {"a": 1}},
        {"weights": []},
        {"weights": {"acme": 0}},
        {"weights": {"acme": float("nan")}},
        {"weights": {"acme": None}},
        {"tables": ["medicine"]},
    ],
)
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ManifestError):
        Manifest.load(publish(tmp_path, **changes))


def test_nothing_is_served_before_the_first_manifest(tmp_path: Path) -> None:
    watcher = ManifestWatcher(tmp_path / "manifest.json")
    assert watcher.current().revision == 0
    publish(tmp_path)
    assert watcher.current().revision == 1


def test_a_new_manifest_is_seen_and_an_unchanged_one_is_not_read_again(tmp_path: Path) -> None:
    watcher = ManifestWatcher(publish(tmp_path))
    first = watcher.current()
    assert watcher.current() is first
    publish(tmp_path, revision=2, hplms={})
    assert watcher.current().revision == 2
    assert watcher.current().find("acme", "mood", 2) is None


@pytest.mark.parametrize("content", ["{", None], ids=["damaged", "removed"])
def test_damaged_or_removed_manifest_leaves_the_last_good_one_in_force(
    tmp_path: Path, content: str | None
) -> None:
    path = publish(tmp_path)
    watcher = ManifestWatcher(path)
    watcher.current()
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    assert watcher.current().revision == 1
    publish(tmp_path, revision=3)
    assert watcher.current().revision == 3


def test_a_part_of_the_manifest_is_what_is_below_some_roots(tmp_path: Path) -> None:
    path = publish(tmp_path)
    for roots, kept in (((), 1), (("mini",), 1), (("cd" * 32, "absent"), 1), (("absent",), 0)):
        manifest = ManifestWatcher(path, roots=roots).current()
        assert (len(manifest.roots), len(manifest.hplms)) == (kept, kept)
        assert manifest.revision == 1
