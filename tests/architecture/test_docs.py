"""What the documents point to is there."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)\s]+))?\)")


def headings(document: Path) -> set[str]:
    """The anchors that a Markdown viewer makes of the headings."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        file = document.parent / target
        assert file.is_file(), f"{document.name} links to {target}"
        assert not anchor or anchor in headings(file), f"{document.name} links to {target}#{anchor}"


def test_the_security_page_names_tests_and_modules_that_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|hmi_site|tenants|versiontree|inference)/[^`\s]+)`", page)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_walk_of_an_infer_request_names_each_module_once() -> None:
    """A name without a folder stands beside the one before it."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = page.partition("### Its modules")[2].partition("\n## ")[0]
    modules = defaultdict(list)
    for side, cell in re.findall(r"^\| (edge|engine):[^|]+\|([^|]+)\|$", walk, re.M):
        folder = ROOT
        for name in re.findall(r"`([^`]+)`", cell):
            file = ROOT / name if "/" in name else folder / name
            folder = file.parent
            modules[side].append(file)
    named = [*modules["edge"], *modules["engine"]]
    assert [file for file in named if not file.is_file()] == []
    assert len(set(named)) == len(named)
    counts = re.search(r"(\d+) at the edge.* (\d+) in the engine", walk)
    assert counts is not None
    assert [int(count) for count in counts.groups()] == [len(modules["edge"]), len(modules["engine"])]
