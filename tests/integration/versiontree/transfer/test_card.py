"""What the model card and the config of an archive tell."""

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import MEASURED, Site
from tests.unit.versiontree.forging import members_of
from versiontree.tree.models import Domain, Version

pytestmark = pytest.mark.django_db


def card_of(version: Version) -> str:
    return members_of(zipped(version))["README.md"].decode()


def front_matter(card: str) -> dict[str, Any]:
    """The YAML before the text, as a hub reads it."""
    found: dict[str, Any] = ModelCard(card, ignore_metadata_errors=False).data.to_dict()  # type: ignore[no-untyped-call]
    return found


def rows_of(card: str, title: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = card.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_front_matter_has_the_fields_of_model_hubs(site: Site) -> None:
    assert front_matter(card_of(site.hplm)) == {
        "license": "cc-by-4.0",
        "base_model": "https://hub.example/tiny",
        "pipeline_tag": "text-classification",
        "tags": ["hmi", "model", "classification"],
        "datasets": ["acme-labels"],
        "digest": site.hplm.digest,
    }
    root = front_matter(card_of(site.root))
    assert (root["license"], root["tags"]) == ("apache-2.0", ["hmi", "root"])
    assert "base_model" not in root


def test_the_card_names_measures_lineage_data_and_licenses(site: Site) -> None:
    card = card_of(site.hplm)
    assert "# spam v1" in card
    assert ["accuracy", "0.75", "0.8125"] in rows_of(card, "Measures")
    assert ["majority baseline", "–", "0.5"] in rows_of(card, "Measures")
    lineage = rows_of(card, "Lineage")
    assert ["Model", "spam v1", "model", site.hplm.digest] in lineage
    assert ["Domain", "medicine v1", "plot", site.domain.digest] in lineage
    assert ["Root", "tiny v1", "root", site.root.digest] in lineage
    assert len(lineage) == 6
    splits = {split.split: split.sha256 for split in site.acme.dataset.splits.all()}
    data = rows_of(card, "Data")
    for split, sha256 in splits.items():
        assert ["spam v1", "acme-labels", split, sha256] in data
    corpus = site.domain.corpus
    assert corpus is not None
    assert ["medicine v1", "leaflets", "text", corpus.sha256] in data
    assert rows_of(card, "Licenses") == [
        ["Model spam", "cc-by-4.0", ""],
        ["Root tiny", "apache-2.0", "https://hub.example/tiny"],
    ]
    assert ["seed", "7"] in rows_of(card, "Training")
    assert ["epochs", "3"] in rows_of(card, "Training")


def test_missing_license_is_unknown_in_the_card(site: Site, tmp_path: Path) -> None:
    bare = tree_factory.ready_root(tmp_path, "bare")
    card = card_of(bare)
    assert front_matter(card)["license"] == "unknown"
    assert rows_of(card, "Licenses") == [["Root bare", "unknown", ""]]


def test_description_is_escaped_in_the_card(site: Site) -> None:
    evil = "a | b\n\n# title <script> [link](x) `code`"
    Domain.unscoped.filter(pk=tree_factory.domain_of(site.domain).pk).update(description=evil)
    version = Version.unscoped.get(pk=site.domain.pk)
    (line,) = (line for line in card_of(version).splitlines() if "script" in line)
    assert line.endswith("a | b # title \\<script\\> \\[link\\](x) \\`code\\`")


def test_config_has_settings_and_data_of_each_version_and_no_secrets(site: Site) -> None:
    members = members_of(zipped(site.hplm))
    config = json.loads(members["config.json"])
    assert config["metrics"] == MEASURED
    assert config["config"]["dataset"]["name"] == "acme-labels"
    assert config["config"]["labels"] == ["no", "yes"]
    assert [step["config"]["corpus"]["name"] for step in config["lineage"]] == ["leaflets", "prose"]
    everything = members["config.json"] + members["manifest.json"] + members["README.md"]
    for secret in (b"/published", b"acme-owner", b'"id"', b"@"):
        assert secret not in everything
    manifest = json.loads(members["manifest.json"])
    assert (manifest["format"], manifest["type"], manifest["branch"]) == (1, "hmi-version", False)
