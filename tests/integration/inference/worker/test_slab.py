"""Slabs under real workers: started again, killed, beside each other, and without room on the disk."""

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from redis import Redis

from inference.engine.slab_room import SlabRoom
from inference.engine.slabs import open_slabs
from inference.hplm.hplm import WEIGHTS_FILE
from inference.queueing.consumer import MAX_DELIVERIES
from inference.queueing.messages import InferRequest
from inference.queueing.transport import RequestQueue
from inference.serving.environment import SettingError, WorkerSettings
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.integration.inference.worker.filling import HPLMS, LARGE
from tests.integration.inference.worker.more_hplms import large_hplms
from tests.integration.inference.worker.references import References
from tests.integration.inference.worker.traffic import Load
from tests.integration.serving_faults.servers import private_mounts
from tests.processes import CHECKOUT, InferenceWorker, Program, wait_until
from tests.unit.inference.engine.shelf import Shelf, use
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

pytestmark = pytest.mark.slow

Start = Callable[..., InferenceWorker]
FILLING = "tests.integration.inference.worker.filling"
MIB = 1024**2


def ask_each(redis: Redis, world: TinyWorld) -> None:
    """One request for each model, answered rightly."""
    requests = [request_for(hplm, "the river") for hplm in world.hplms]
    queue = RequestQueue(redis, capacity=100)
    for request in requests:
        queue.submit(request)
    wait_until(lambda: depth(redis) == 0)
    replies = {reply.id: reply for reply in replies_in(redis)}
    for request in requests:
        assert_right(world, request, replies[request.id])


def keeps(worker: InferenceWorker, hplms: int) -> bool:
    """Whether it says that so many are there, and that none was taken for another."""
    status = worker.status()
    return status is not None and (status.resident, status.slot_mismatches) == (hplms, 0)


def test_a_worker_that_starts_again_needs_no_files(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    first = start_worker().wait_until_ready()
    ask_each(redis, world)
    assert first.terminate() == 0
    for hplm in world.hplms:
        (world.folder("hplm", hplm.digest) / WEIGHTS_FILE).write_bytes(b"gone")
    second = start_worker().wait_until_ready()
    ask_each(redis, world)
    wait_until(lambda: keeps(second, len(world.hplms)), second)


def test_two_workers_of_one_folder_both_serve(redis: Redis, world: TinyWorld, start_worker: Start) -> None:
    started = [start_worker(HMI_BATCH_ROWS="2") for _ in range(2)]
    workers = [worker.wait_until_ready() for worker in started]
    while not all((status := worker.status()) and status.resident for worker in workers):
        ask_each(redis, world)
    folder = world.artifact_root.parent / "slabs"
    assert {path.name for path in folder.iterdir()} == {"float32-0", "float32-1"}


def test_workers_killed_while_slots_are_filled_leave_nothing_wrong(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    world = large_hplms(world, 12)
    world.publish(revision=2)
    references, draw = References(world), random.Random(5)
    texts = tiny_texts(20, seed=4)

    def make(number: int) -> InferRequest:
        return request_for(draw.choice(world.hplms), *draw.choices(texts, k=2))

    with Load(redis, make, references.assert_right) as load:
        # A request that has met three dying workers is refused.
        for _ in range(MAX_DELIVERIES - 1):
            worker = start_worker(HMI_SLAB_MB="1").wait_until_ready()
            before = load.answered
            load.until(lambda before=before: load.answered > before + 40)  # type: ignore[misc]
            worker.kill()
        last = start_worker(HMI_SLAB_MB="1").wait_until_ready()
        before = load.answered
        load.until(lambda: load.answered > before + 40)
    status = last.told()
    assert (status.slot_mismatches, status.last_error) == (0, "")


def test_whenever_it_is_killed_each_slot_is_whole_or_empty(tmp_path: Path) -> None:
    draw, most = random.Random(8), 0
    for _ in range(12):
        program = Program("-u", "-m", FILLING, str(tmp_path), "6000", "0", env={})
        wait_until(lambda program=program: "found" in program.output(), program)  # type: ignore[misc]
        time.sleep(draw.uniform(0.0, 0.1))
        program.kill()
        left = open_slabs(torch.float32, SlabRoom(tmp_path, 6000 << 10), memory_bytes=0)
        shelf = Shelf(LARGE)
        cache = shelf.cache(left)
        found = [int(slot.digest) for slot in cache._slots.values()]
        most = max(most, len(found))
        use(cache, *found)
        assert shelf.taken == []
        cache.close()
    assert most > 1


def test_on_a_full_disk_it_goes_on_with_the_slots_that_it_has(tmp_path: Path) -> None:
    """Slabs that would take all of the disk leave a part of it, and do with what they have when others take
    that. Where there is no room at all, memory takes their place."""
    disk, fill = tmp_path / "disk", f"{sys.executable} -m {FILLING} {tmp_path}/disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=8m tmpfs {disk}"
    if subprocess.run([*private_mounts(), mount], capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    steps = (
        f"{fill}/first 100000 100 60",
        f"df --output=avail {disk} | tail -1",
        f"{{ dd if=/dev/zero of={disk}/others bs=1k 2> {os.devnull}; true; }}",
        f"{fill}/first 100000 100 60",
        f"{fill}/second 100000 6000 60",
    )
    command = [*private_mounts(), " && ".join([mount, *steps])]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers = map(int, re.findall(r"\d+", done.stdout))
    found, kept, free, found_later, kept_later, found_none, in_memory = numbers
    assert found == found_none == 0
    assert 0 < kept < HPLMS
    assert free >= 400
    assert found_later == kept
    assert 0 < kept_later < HPLMS
    assert 0 < in_memory < HPLMS
    assert done.stderr.count("Models are kept in memory: the disk") == 1


def test_where_no_slab_can_be_hplms_are_kept_in_memory(
    redis: Redis, world: TinyWorld, start_worker: Start, tmp_path: Path
) -> None:
    (tmp_path / "slabs").touch()
    worker = start_worker(HMI_HOME=str(tmp_path)).wait_until_ready()
    ask_each(redis, world)
    assert "Models are kept in memory" in worker.output()
    wait_until(lambda: keeps(worker, len(world.hplms)), worker)


def test_an_hplm_that_is_no_longer_served_gives_its_slot_back(
    redis_url: str, world: TinyWorld, tmp_path: Path
) -> None:
    desk = Desk(redis_url, world, slab=SlabRoom(tmp_path / "slabs", MIB))
    desk.ask(*(request_for(hplm, "river") for hplm in world.hplms))
    assert len(desk.catalogue.cache) == len(world.hplms)
    world.publish(revision=2, hplms=world.hplms[:2])
    desk.serve()
    assert len(desk.catalogue.cache) == 2
    world.publish(revision=3)
    replies = desk.ask(*(requests := [request_for(hplm, "river") for hplm in world.hplms]))
    for request, reply in zip(requests, replies, strict=True):
        assert_right(world, request, reply)
    assert desk.catalogue.cache.loads == len(world.hplms) + 4
    desk.close()


def test_before_there_is_a_manifest_nothing_is_given_back(
    redis_url: str, world: TinyWorld, tmp_path: Path
) -> None:
    desk = Desk(redis_url, world, slab=SlabRoom(tmp_path / "slabs", MIB))
    desk.ask(request_for(world.hplms[0], "river"))
    desk.close()
    manifest = world.artifact_root / "manifest.json"
    manifest.rename(manifest.with_suffix(".away"))
    desk = Desk(redis_url, world, slab=SlabRoom(tmp_path / "slabs", MIB))
    desk.serve()
    assert len(desk.catalogue.cache) == 1
    desk.close()


def test_a_slab_is_stored_in_the_home() -> None:
    env = {"REDIS_URL": "redis://", "HMI_ARTIFACT_ROOT": "/nowhere"}
    assert WorkerSettings.from_env(env).slab is None
    home = env | {"HMI_HOME": "/home"}
    assert WorkerSettings.from_env(home).slab == SlabRoom(Path("/home/slabs"), 24576 * MIB)
    assert WorkerSettings.from_env(home | {"HMI_SLAB_MB": "7"}).slab == SlabRoom(Path("/home/slabs"), 7 * MIB)
    assert WorkerSettings.from_env(home | {"HMI_SLAB_MB": "0"}).slab is None
    with pytest.raises(SettingError, match="HMI_SLAB_MB='-1'"):
        WorkerSettings.from_env(home | {"HMI_SLAB_MB": "-1"})
