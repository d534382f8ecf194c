"""How many epochs a fine-tuning has: as many as were asked for, however few rows there are."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.world import World
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.tree.services.hplms import hplm_create
from workers.runner import run_job


@pytest.mark.parametrize(
    ("chosen", "epochs"),
    [
        ({"epochs": 2}, 2),
        ({"epochs": 2, "min_steps": 10_000, "max_epochs": 30}, 2),
        ({"epochs": 2, "max_epochs": 1}, 2),
        ({"min_steps": 10_000, "max_epochs": 3}, 3),
    ],
)
def test_a_job_makes_as_many_epochs_as_its_settings_say(
    world: World, tmp_path: Path, chosen: dict[str, Any], epochs: int
) -> None:
    version = hplm_create(
        tenant=world.tenant,
        name="mood",
        parent=world.ready_root(tmp_path / "root"),
        dataset=world.classes,
        actor=world.owner,
        settings={"adapter": 4, "patience": 100, **chosen},
    )
    for job in jobs_in_order(version):
        run_job(job.pk)
    version.refresh_from_db()
    report = version.metrics["fine_tune"]
    assert (len(report["epochs"]), report["settings"]["epochs"]) == (epochs, epochs)
