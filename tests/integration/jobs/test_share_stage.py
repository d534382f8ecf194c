"""A stage that is shared: who is asked to help with it, and that a cancel is heard at any time."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.world import World
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.workers.training.world import CancelAt, NullReporter
from versiontree.jobs.models import Job, JobShard
from versiontree.jobs.services.lifecycle import job_claim
from workers import sharding
from workers.sharding import process_stage
from workers.training.disk import build_once
from workers.training.progress import Cancelled, Reporter

RANGES = [(0, 10), (10, 20), (20, 25)]


@pytest.fixture
def job(world: World) -> Job:
    """A running job."""
    claimed = job_claim(job_id=jobs_in_order(world.register_root())[0].pk, worker="mine", lease_s=60)
    assert claimed is not None
    return claimed


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many helpers were asked for, each time."""
    counts: list[int] = []
    monkeypatch.setattr(sharding, "shards_dispatch", lambda *, job_id, count: counts.append(count))
    return counts


def work(shard: JobShard, folder: Path, told: Callable[[int], None]) -> Mapping[str, Any]:
    def make(aside: Path) -> dict[str, Any]:
        (aside / "part").write_text("made")
        told(1)
        return {}

    return build_once(folder, make)


def share(job: Job, staging: Path, reporter: Reporter) -> list[Path]:
    return process_stage(
        job_id=job.pk, stage="count", ranges=RANGES, staging=staging, work=work, reporter=reporter
    )


def test_help_is_asked_for_at_once_and_not_with_every_step(
    job: Job, tmp_path: Path, asked: list[int]
) -> None:
    share(job, tmp_path, NullReporter())
    assert asked == [2]


def test_help_is_asked_for_again_while_parts_wait(
    job: Job, tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "DISPATCH_INTERVAL_S", 0.0)
    share(job, tmp_path, NullReporter())
    assert asked == [2, 2, 1, 0]


def test_a_cancel_is_heard_while_finished_parts_are_read_again(
    job: Job, tmp_path: Path, asked: list[int]
) -> None:
    assert len(share(job, tmp_path, NullReporter())) == len(RANGES)
    cancel = CancelAt(2)
    with pytest.raises(Cancelled):
        share(job, tmp_path, cancel)
    assert asked == [2]


def test_a_part_that_was_spoilt_is_done_again(job: Job, tmp_path: Path, asked: list[int]) -> None:
    folders = share(job, tmp_path, NullReporter())
    (folders[1] / "part").write_text("spoilt")
    assert share(job, tmp_path, NullReporter()) == folders
    assert [(folder / "part").read_text() for folder in folders] == ["made"] * 3
