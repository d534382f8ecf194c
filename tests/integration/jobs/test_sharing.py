"""One build of a table by several real workers, of which one dies."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.jobs.world import World, finish, let_lease_run_out, state_of, store
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import CeleryWorker, wait_until
from tests.unit.tiny import tiny_lower, tiny_root
from tests.unit.workers.training.world import NullReporter, contents
from versiontree.artifact_store import staging_folder
from versiontree.jobs.models import Job, JobShard, ShardState
from versiontree.tree.models import VersionArtifact
from workers.jobs.inputs import corpus_file
from workers.training.plots import PlotSettings, build_plot

StartNode = Callable[[str], CeleryWorker]
LONG_AGO = "2000-01-01T00:00Z"
EXACT = {"HMI_DEVICE": "cpu", "HMI_DTYPE": "float32"}


@pytest.fixture
def build(world: World, tmp_path: Path) -> Job:
    """A queued build of a root's table, in many small parts."""
    version = world.register_root()
    root = tiny_root(tmp_path / "checkpoint")
    root.save(tmp_path / "root")
    tiny_lower(root).save(tmp_path / "lower")
    convert, job = jobs_in_order(version)
    finish(convert, {"root": tmp_path / "root", "lower": tmp_path / "lower"})
    params = job.params | {"settings": {"piece_bytes": 500, "fragments_per_batch": 4}}
    Job.unscoped.filter(pk=job.pk).update(params=params)
    return Job.unscoped.get(pk=job.pk)


@pytest.fixture
def start_node(world: World, service_env: dict[str, str], tmp_path: Path) -> Iterator[StartNode]:
    """Starts Celery workers, each on what it takes for a machine of its own."""
    workers: list[CeleryWorker] = []

    def start(name: str) -> CeleryWorker:
        folder = tmp_path / name
        folder.mkdir()
        workers.append(CeleryWorker({**service_env, **EXACT, "TMPDIR": str(folder)}, folder))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


def pids(worker: CeleryWorker) -> set[str]:
    return {str(process.pid) for process in worker.descendants()}


def held_by(job: Job, worker: CeleryWorker) -> list[JobShard]:
    running = JobShard.objects.filter(job=job, state=ShardState.RUNNING)
    mine = pids(worker)
    return [shard for shard in running if shard.worker.split(":")[1] in mine]


def freeze(worker: CeleryWorker) -> None:
    for process in worker.descendants():
        process.send_signal(signal.SIGSTOP)


def thaw(worker: CeleryWorker) -> None:
    for process in worker.descendants():
        process.send_signal(signal.SIGCONT)


def freeze_over_a_shard(job: Job, worker: CeleryWorker) -> JobShard:
    """Freeze the worker's processes at a moment when it holds a shard."""
    caught: list[JobShard] = []

    def frozen() -> bool:
        if not held_by(job, worker):
            return False
        freeze(worker)
        caught.extend(held_by(job, worker))
        if not caught:
            thaw(worker)
        return bool(caught)

    wait_until(frozen)
    return caught[0]


def kill(worker: CeleryWorker) -> None:
    """SIGKILL to the worker and all its processes."""
    processes = worker.descendants()
    os.killpg(worker.process.pid, signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


def alone(job: Job, folder: Path) -> dict[str, bytes]:
    """The table as one process makes it."""
    settings = PlotSettings(device="cpu", precision="float32", fragments_per_batch=4)
    links = {
        link.role: store().path(link.role, link.artifact.digest)
        for link in VersionArtifact.unscoped.filter(version=job.version).select_related("artifact")
    }
    build_plot(
        root=links["root"],
        lower=links["lower"],
        corpus=corpus_file(job),
        out=folder / "alone",
        alpha=job.params["alpha"],
        settings=settings,
        reporter=NullReporter(),
        all_unigrams=True,
    )
    return contents(folder / "alone")


def made(job: Job) -> dict[str, bytes]:
    link = VersionArtifact.unscoped.get(version=job.version, role="plot")
    return contents(store().path("plot", link.artifact.digest))


def test_killed_helper_loses_only_its_shard(build: Job, start_node: StartNode, tmp_path: Path) -> None:
    first, second = start_node("first"), start_node("second")
    wait_until(lambda: JobShard.objects.filter(job=build, state=ShardState.DONE).exists(), first)
    coordinator = Job.unscoped.get(pk=build.pk).worker.split(":")[1]
    runs, helps = (first, second) if coordinator in pids(first) else (second, first)
    # The helper takes seconds to begin; until then there must be something left to help with.
    mine = freeze_over_a_shard(build, runs)
    JobShard.objects.filter(pk=mine.pk).update(lease_expires_at="2100-01-01T00:00Z")
    lost = freeze_over_a_shard(build, helps)
    kill(helps)
    JobShard.objects.filter(pk=lost.pk, worker=lost.worker).update(lease_expires_at=LONG_AGO)
    thaw(runs)
    wait_until(lambda: state_of(build) == "succeeded", runs)
    shards = JobShard.objects.filter(job=build)
    assert set(shards.exclude(pk=lost.pk).values_list("attempts", flat=True)) == {1}
    heir = shards.get(pk=lost.pk)
    assert (heir.attempts, heir.worker.split(":")[1]) == (2, coordinator)
    assert made(build) == alone(build, tmp_path)
    assert not staging_folder(store().root, build.pk).exists()


def test_killed_coordinator_keeps_sound_shards(build: Job, start_node: StartNode, tmp_path: Path) -> None:
    first = start_node("first")
    wait_until(lambda: JobShard.objects.filter(job=build, stage="vectors", state="done").exists(), first)
    kill(first)
    done = set(JobShard.objects.filter(job=build, state=ShardState.DONE).values_list("pk", "worker"))
    spoilt = JobShard.objects.get(job=build, stage="count", number=0)
    (staging_folder(store().root, build.pk) / "count-0" / "full.parquet").write_bytes(b"not what was counted")
    JobShard.objects.filter(job=build, state=ShardState.RUNNING).update(lease_expires_at="2000-01-01T00:00Z")
    let_lease_run_out(build)
    second = start_node("second")
    wait_until(lambda: state_of(build) == "succeeded", second)
    after = set(JobShard.objects.filter(job=build).values_list("pk", "worker"))
    assert done - after == {(spoilt.pk, spoilt.worker)}
    assert Job.unscoped.get(pk=build.pk).attempt == 2
    assert made(build) == alone(build, tmp_path)
