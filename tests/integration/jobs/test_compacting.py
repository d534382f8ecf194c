"""Tables of a domain become one that gives the same answers."""

from pathlib import Path

import numpy as np

from inference.hplm.plot import PlotChain, PlotTable
from tests.integration.jobs.world import World, finish, store
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.plot_lookups import looked_up
from tests.unit.tiny import fragments_of, tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.jobs.models import Job
from versiontree.tree.models import Version, VersionArtifact
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update
from workers.runner import run_job


def chain(version: Version) -> PlotChain:
    return PlotChain(
        [PlotTable.open(store().path("plot", plot.digest)) for plot in build_inputs(version).plots]
    )


def test_the_compacted_version_answers_as_the_one_before(world: World, tmp_path: Path) -> None:
    above = world.ready_root(tmp_path / "root")
    root = tiny_root(tmp_path / "checkpoint")
    version = domain_create(
        tenant=None, parent=above, name="medicine", corpus=tree_factory.corpus(None, "text"), actor=None
    )
    for seed in range(3):
        if seed:
            text = tree_factory.corpus(None, f"text {seed}")
            version = domain_update(domain=tree_factory.domain_of(version), corpus=text, actor=None)
        folder = tmp_path / str(seed)
        lower = tiny_lower(root, seed=seed)
        lower.save(folder / "lower")
        texts = tiny_texts(30, seed=seed)
        tiny_plot(folder / "plot", root, lower, texts, all_unigrams=False, share=0.4, seed=seed)
        pretrain, build = jobs_in_order(version)
        finish(pretrain, {"lower": folder / "lower"})
        finish(build, {"plot": folder / "plot"})
    before = Version.unscoped.get(pk=version.pk)
    compacted = domain_compact(domain=tree_factory.domain_of(before), actor=None)
    run_job(jobs_in_order(compacted)[0].pk)
    job = Job.unscoped.get(version=compacted)
    assert (job.state, job.metrics["tables"]) == ("succeeded", 3)
    compacted.refresh_from_db()
    assert (compacted.state, len(chain(compacted).tables), len(chain(before).tables)) == ("ready", 2, 4)
    lowers = VersionArtifact.unscoped.filter(version__in=[before, compacted], role="lower")
    assert len(set(lowers.values_list("artifact", flat=True))) == 1
    wanted = fragments_of(root, tiny_texts(200, seed=9))
    old, new = looked_up(chain(before), wanted), looked_up(chain(compacted), wanted)
    assert np.array_equal(old.vectors, new.vectors)
    assert np.array_equal(old.level, new.level)
