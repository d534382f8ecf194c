"""A rebased version keeps its PET where the new parent is as good for it, and is trained further else."""

from pathlib import Path

import pytest

from inference.cascade.profile import CascadeProfile
from tests.integration.jobs.world import World, finish, learn_well, store
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import domain_of, hplm_of, jobs_in_order
from tests.unit.tiny import tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.promotion import comparison_of_version
from versiontree.tree.selectors.versions import default_of
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.hplms import version_set_policy
from versiontree.tree.services.rebases import hplm_rebase
from workers.runner import run_job


def built(version: Version, folder: Path, seed: int) -> Version:
    """A version of a domain with the lower layers and the table of this seed, as its jobs would make them."""
    root = tiny_root(folder / "checkpoint")
    lower = tiny_lower(root, seed=seed)
    lower.save(folder / "lower")
    tiny_plot(folder / "plot", root, lower, tiny_texts(60), all_unigrams=False)
    pretrain, build = jobs_in_order(version)
    finish(pretrain, {"lower": folder / "lower"})
    finish(build, {"plot": folder / "plot"})
    version.refresh_from_db()
    return version


def updated(domain: Version, folder: Path, seed: int) -> Version:
    text = tree_factory.corpus(None, folder.name)
    return built(domain_update(domain=domain_of(domain), corpus=text, actor=None), folder, seed)


def run_jobs(version: Version) -> Version:
    for job in jobs_in_order(version):
        run_job(job.pk)
        run_job(job.pk)  # delivered twice
    version.refresh_from_db()
    assert version.state == "ready", [job.error_message for job in jobs_in_order(version)]
    return version


def weights(version: Version) -> bytes:
    return (store().path("hplm", version.digest) / "hplm.safetensors").read_bytes()


@pytest.fixture
def domain(world: World, tmp_path: Path) -> Version:
    root, text = world.ready_root(tmp_path / "root"), tree_factory.corpus(None, "text")
    made = domain_create(tenant=None, parent=root, name="medicine", corpus=text, actor=None)
    return built(made, tmp_path / "first", seed=0)


@pytest.fixture
def model(world: World, domain: Version) -> Version:
    """A model that has learned its task, and answers from the tables."""
    made = world.create_hplm(domain)
    learn_well(jobs_in_order(made)[0])
    version_set_policy(version=made, policy="table", actor=None)
    return run_jobs(made)


def test_a_rebased_version_has_the_same_pet_if_its_dev_metric_held_and_is_trained_if_that_fell(
    model: Version, domain: Version, tmp_path: Path
) -> None:
    assert model.metrics["fine_tune"]["dev"]["value"] > 0.9
    same = updated(domain, tmp_path / "same", seed=0)
    second = run_jobs(hplm_rebase(hplm=hplm_of(model), actor=None))
    found = second.metrics["fine_tune"]["rebase"]
    assert (found["trained"], found["old"], found["p_value"]) == (False, found["new"], 1.0)
    assert (second.parent, weights(second)) == (same, weights(model))
    assert second.metrics["fine_tune"]["dev"]["value"] == model.metrics["fine_tune"]["dev"]["value"]
    kept, fitted = (CascadeProfile.load(store().path("hplm", one.digest)) for one in (second, model))
    assert kept is not None
    assert kept.cross_fitted
    assert kept == fitted, "the few dev rows of the new parent would tell less"
    compared = comparison_of_version(second)
    assert compared is not None
    assert (compared.version, compared.problem, compared.dev_left_out) == (1, "", 0)
    assert default_of(model) == second

    updated(domain, tmp_path / "other", seed=5)
    third = hplm_rebase(hplm=hplm_of(model), actor=None)
    learn_well(jobs_in_order(third)[0])
    run_jobs(third)
    found = third.metrics["fine_tune"]["rebase"]
    assert found["trained"]
    assert found["new"] < found["old"]
    assert third.metrics["fine_tune"]["warm_start"] == {"pet": True, "head": True}
    assert third.metrics["fine_tune"]["dev"]["value"] > found["new"]
    assert weights(third) != weights(second)
    assert Job.unscoped.filter(version=third).count() == 2
