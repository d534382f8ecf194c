"""How much of an upload the tables of each root and domain hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.test import Client

from inference.hplm import fragments
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from tenants.datasets.formats.examples import read_examples
from tenants.datasets.storage import stored_path
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, world_build
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Coverage, Version
from versiontree.tree.selectors.coverage import coverages_of, versions_built_from
from versiontree.tree.selectors.lineage import build_inputs
from workers import coverage
from workers.coverage import coverage_measure

pytestmark = pytest.mark.slow


@pytest.fixture
def world(db: None, artifact_root: Path, upload_root: Path, tmp_path: Path) -> World:
    """A root and a domain with real tables."""
    return world_build(TinyFiles(tmp_path / "checkpoint"))


def test_every_fragment_is_counted_at_the_level_at_which_it_would_be_served(world: World) -> None:
    coverage_measure("dataset", world.dataset.pk)
    measured, waiting = coverages_of(world.tenant, world.dataset)
    assert ({one.version for one in measured}, waiting) == ({world.root, world.domain}, [])
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    for one in measured:
        inputs = build_inputs(one.version)
        assert inputs.root is not None
        root = Root.load(store.path("root", inputs.root.digest))
        chain = PlotChain([PlotTable.open(store.path("plot", table.digest)) for table in inputs.plots])
        expected = np.zeros(3, dtype=np.int64)
        for split in world.dataset.splits.all():
            for example in read_examples(stored_path(split.sha256)):
                ids = root.tokenizer.encode(*example.texts).ids
                expected += chain.lookup(fragments.extract(ids, chain.missing_id, chain.n)).counts()
        assert [one.trigrams, one.bigrams, one.unigrams] == expected.tolist()


def test_the_table_of_a_domain_adds_to_that_of_its_root(world: World) -> None:
    coverage_measure("corpus", world.corpus.pk)
    found = {one.version: one for one in coverages_of(world.tenant, world.corpus)[0]}
    assert found[world.domain].fragments == found[world.root].fragments > 0
    assert found[world.domain].trigrams >= found[world.root].trigrams


def test_what_was_measured_is_not_measured_again(world: World) -> None:
    coverage_measure("corpus", world.corpus.pk)
    before = set(Coverage.unscoped.values_list("pk", "measured_at"))
    coverage_measure("corpus", world.corpus.pk)
    assert set(Coverage.unscoped.values_list("pk", "measured_at")) == before


def test_a_table_that_cannot_be_read_is_said_and_the_others_are_measured(world: World) -> None:
    inputs = build_inputs(world.domain)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    for file in store.path("plot", inputs.plots[0].digest).iterdir():
        if file.is_file():
            file.unlink()
    coverage_measure("dataset", world.dataset.pk)
    found = {one.version: one for one in coverages_of(world.tenant, world.dataset)[0]}
    assert "could not be read" in found[world.domain].error_message
    assert found[world.root].fragments > 0


def test_whatever_is_wrong_with_one_version_the_others_are_measured(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = coverage._levels

    def some(version: Version, *others: Any) -> tuple[int, int, int]:
        if version == world.domain:
            raise ZeroDivisionError("nobody foresaw this")
        return levels(version, *others)

    monkeypatch.setattr(coverage, "_levels", some)
    coverage_measure("dataset", world.dataset.pk)
    measured, waiting = coverages_of(world.tenant, world.dataset)
    found = {one.version: one for one in measured}
    assert (waiting, found[world.root].error_message) == ([], "")
    assert "nobody foresaw this" in found[world.domain].error_message


def test_an_upload_that_is_gone_is_nobodys_fault(world: World) -> None:
    coverage_measure("dataset", 10**6)
    assert not Coverage.unscoped.exists()


def test_the_page_recommends_the_best_and_leads_to_the_form(client: Client, world: World) -> None:
    coverage_measure("dataset", world.dataset.pk)
    Coverage.unscoped.filter(version=world.domain).update(trigrams=10**6)
    client.force_login(world.owner)
    page = client.get(f"/t/acme/data/datasets/{world.dataset.pk}/coverage/").content.decode()
    assert page.count(">best<") == 1
    assert page.index("medicine") < page.index("minilm v1")
    assert f"/t/acme/models/new/?parent={world.domain.pk}&amp;dataset={world.dataset.pk}" in page
    assert "Measuring" not in page


def test_the_page_asks_a_worker_and_asks_again_itself(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    page = client.get(f"/t/acme/data/corpora/{world.corpus.pk}/coverage/").content.decode()
    assert "Measuring coverage of 2 more tables" in page
    assert "hx-get" in page
    assert "Use as parent" not in page


def test_what_was_made_from_an_upload_is_listed(client: Client, world: World) -> None:
    assert list(versions_built_from(world.tenant, world.dataset)) == [world.hplm]
    client.force_login(world.viewer)
    page = client.get(f"/t/acme/data/datasets/{world.dataset.pk}/").content.decode()
    assert "/t/acme/models/triage/versions/1/" in page
