"""No disk has room left."""

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.messages import InferRequest
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for, stop_at_work
from tests.integration.serving_faults.installation import Installation
from tests.integration.serving_faults.servers import OwnValkey, private_mounts
from tests.processes import InferenceWorker, wait_until
from tests.settings import home_base
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld, tiny_world

pytestmark = pytest.mark.slow

NOTHING = (0, resource.RLIM_INFINITY)
ANYTHING = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@pytest.fixture
def without_room(site: Installation) -> Iterator[Installation]:
    """Neither the inference worker nor the web server can write a byte to any file: their logs are lost."""
    pids = [site.worker.process.pid, site.web.child.pid]
    pids += [child.pid for child in psutil.Process(site.web.child.pid).children(recursive=True)]
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, NOTHING)
    yield site
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, ANYTHING)


def test_worker_and_web_go_on_where_they_cannot_even_log(without_room: Installation) -> None:
    site = without_room
    logged = site.worker.output(), site.web.output()
    site.redis.xadd(
        keys.requests(site.served().root), {keys.FIELD: b"nonsense"}
    )  # something for the worker to log
    assert site.get("/nothing/here").status_code == 404  # and for the web server
    wait_until(lambda: site.waiting() == 0, site.worker)
    for number in range(5):
        site.assert_right(site.ask(f"stone {number}"), f"stone {number}")
    assert site.get("/health/ready").status_code == 200
    assert (site.worker.output(), site.web.output()) == logged


@pytest.fixture
def full(tmp_path: Path) -> Iterator[OwnValkey]:
    """A Valkey on a small disk of its own."""
    probe = [*private_mounts(), 'mount -t tmpfs -o size=1m tmpfs "$0"', str(tmp_path)]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    with tempfile.TemporaryDirectory(prefix="hmi-disk-", dir=home_base()) as home:
        server = OwnValkey(Path(home), binary=settings.HMI_REDIS_BIN, small_disk=True)
        server.start()
        yield server
        server.kill()


def fill(server: OwnValkey, redis: Redis) -> Path:
    """Leave no room; returns when the server refuses to write."""
    filler = server.disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        write_without_end(filler)
    wait_until(lambda: not takes_writes(redis))
    return filler


def write_without_end(path: Path) -> None:
    """Until it fails."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def takes_writes(redis: Redis) -> bool:
    """Whether the server keeps anything new."""
    try:
        redis.set("probe", bytes(4096))
    except RedisError:
        return False
    return True


def test_a_queue_whose_disk_is_full_loses_nothing_and_goes_on_when_there_is_room(
    full: OwnValkey, tmp_path: Path
) -> None:
    world: TinyWorld = tiny_world(tmp_path / "artifacts")
    redis = connect(full.url, retries=0)
    queue = RequestQueue(redis, capacity=100)
    worker = InferenceWorker(full.url, world.artifact_root, HMI_BATCH_ROWS="4").wait_until_ready()
    try:
        requests: list[InferRequest] = []

        def give() -> None:
            more = [request_for(hplm, *tiny_texts(40, longest=60)) for hplm in world.hplms * 2]
            requests.extend(more)
            for request in more:
                queue.submit(request)

        stop_at_work(worker, give)
        taken, answered = worker.pending(), len(replies_in(redis))
        filler = fill(full, redis)
        with pytest.raises(RedisError):
            queue.submit(request_for(world.hplms[0], "no room for this"))
        worker.resume()
        wait_until(lambda: "cannot be reached" in worker.output(), worker)
        assert worker.pending() == taken
        assert len(replies_in(redis)) == answered

        filler.unlink()
        wait_until(lambda: depth(redis) == 0, worker)
        replies = {reply.id: reply for reply in replies_in(redis)}
        assert len(replies_in(redis)) == len(requests)
        for request in requests:
            assert_right(world, request, replies[request.id])
        worker.wait_until_ready()
    finally:
        worker.kill()
