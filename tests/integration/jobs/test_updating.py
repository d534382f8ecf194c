"""Updating a model: what the job that trains it really goes on from."""

from pathlib import Path
from typing import Any

from tests.integration.jobs.world import World
from tests.integration.versiontree.tree_factory import hplm_of, jobs_in_order
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_update
from workers.runner import run_job


def run_jobs(version: Version) -> Version:
    """Train it and measure it."""
    for job in jobs_in_order(version):
        run_job(job.pk)
    version.refresh_from_db()
    assert version.state == "ready"
    return version


def updated(world: World, first: Version, **settings: Any) -> Version:
    return run_jobs(
        hplm_update(hplm=hplm_of(first), dataset=world.classes, actor=world.owner, settings=settings)
    )


def test_an_update_without_settings_trains_on_from_a_pet_of_its_own_shape(
    world: World, tmp_path: Path
) -> None:
    first = run_jobs(world.create_hplm(world.ready_root(tmp_path / "root")))
    second = updated(world, first)
    assert second.metrics["fine_tune"]["warm_start"] == {"pet": True, "head": True}
    assert "warnings" not in second.config
    third = updated(world, first, lora=4)
    assert third.metrics["fine_tune"]["warm_start"] == {"pet": False, "head": False}
    assert "not from version 2" in third.config["warnings"][0]
    fourth = updated(world, first, pooling="cls")
    assert fourth.metrics["fine_tune"]["warm_start"] == {"pet": True, "head": False}
    assert "The head is trained from scratch" in fourth.config["warnings"][0]
