"""How much of an upload the tables of each root and domain hold."""

from pathlib import Path

import numpy as np
import pytest
from django.conf import settings

from inference.hplm import fragments
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from tenants.datasets.formats.examples import read_examples
from tenants.datasets.storage import stored_path
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, world_build
from tests.unit.plot_lookups import looked_up
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Coverage
from versiontree.tree.selectors.coverage import coverages_of
from versiontree.tree.selectors.lineage import build_inputs
from workers.coverage import coverage_measure


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
                found = looked_up(chain, fragments.extract(ids, chain.missing_id, chain.n))
                expected += np.bincount(found.level, minlength=3)
        assert [one.trigrams, one.bigrams, one.unigrams] == expected.tolist()


def test_the_table_of_a_domain_adds_to_that_of_its_root(world: World) -> None:
    coverage_measure("corpus", world.corpus.pk)
    found = {one.version: one for one in coverages_of(world.tenant, world.corpus)[0]}
    assert found[world.domain].fragments == found[world.root].fragments > 0
    assert found[world.domain].trigrams >= found[world.root].trigrams


def test_measured_coverage_is_not_measured_again(world: World) -> None:
    coverage_measure("corpus", world.corpus.pk)
    before = set(Coverage.unscoped.values_list("pk", "measured_at"))
    coverage_measure("corpus", world.corpus.pk)
    assert set(Coverage.unscoped.values_list("pk", "measured_at")) == before


def test_unreadable_table_is_reported_and_the_others_are_measured(world: World) -> None:
    inputs = build_inputs(world.domain)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    for file in store.path("plot", inputs.plots[0].digest).iterdir():
        if file.is_file():
            file.unlink()
    coverage_measure("dataset", world.dataset.pk)
    found = {one.version: one for one in coverages_of(world.tenant, world.dataset)[0]}
    assert "could not be read" in found[world.domain].error_message
    assert found[world.root].fragments > 0


def test_an_upload_that_is_gone_is_nobodys_fault(world: World) -> None:
    coverage_measure("dataset", 10**6)
    assert not Coverage.unscoped.exists()
