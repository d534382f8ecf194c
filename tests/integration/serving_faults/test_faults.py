"""One process of an installation is killed, or no disk has room left: what those who asked are told, and that
all recover. In one file, so that a run starts one installation."""

import resource
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.messages import InferRequest
from inference.queueing.transport import REPLIES_LIFE_S, RequestQueue
from tenants.base.errors import ErrorCode
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for, stop_at_work
from tests.integration.serving_faults.installation import PASSWORD, Installation, assert_refused
from tests.processes import InferenceWorker, wait_until
from tests.services import OwnValkey, private_mounts
from tests.settings import home_base
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld, tiny_world

TEXTS = ("a good stone", "the river of the doctor", "poor patient", "copper city")
GONE = -2
"""What Redis says of a key that has ended."""
NOTHING = (0, resource.RLIM_INFINITY)
ANYTHING = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def test_killed_web_server_leaves_no_requests_and_answers_after_a_restart(site: Installation) -> None:
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.web.kill()
    site.worker.resume()
    wait_until(lambda: site.waiting() == 0, site.worker)
    assert RequestQueue(site.redis, capacity=0).delivered() == 0
    for waiting in asked.values():
        with pytest.raises(httpx.TransportError):
            waiting.result()
    nobodys = site.redis.keys(keys.REPLIES_PREFIX + "*")
    assert nobodys
    lives = [life for stream in nobodys if (life := site.redis.ttl(stream)) != GONE]
    assert all(0 <= life <= REPLIES_LIFE_S for life in lives)

    worker = site.worker
    site.web.start()
    for text in TEXTS:
        site.assert_right(site.ask(text), text)
    assert site.worker is worker
    assert worker.process.poll() is None


def test_requests_accepted_before_valkey_was_killed_are_answered_after_it_is_back(site: Installation) -> None:
    worker, web = site.worker, site.web.child.pid
    worker.pause()
    asked = site.asking(*TEXTS)
    site.valkey.kill()
    worker.resume()
    assert_refused(site.ask("nobody takes this"), ErrorCode.WORKER_UNAVAILABLE)
    wait_until(lambda: "cannot be reached" in worker.output(), worker)
    site.valkey.start()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)

    wait_until(lambda: site.get("/health/ready").status_code == 200, worker)
    site.assert_right(site.ask("a new one"), "a new one")
    assert site.waiting() == 0
    assert worker.process.poll() is None
    assert (site.web.child.pid, site.web.runs()) == (web, True)


def test_requests_while_valkey_is_killed_are_answered_or_refused_with_retry_after(site: Installation) -> None:
    answers: list[tuple[str, httpx.Response]] = []
    enough = threading.Event()

    def keep_asking(text: str) -> None:
        while not enough.is_set():
            answers.append((text, site.ask(text)))

    def seen(status: int, after: int) -> bool:
        return any(answer.status_code == status for _, answer in answers[after:])

    asking = [threading.Thread(target=keep_asking, args=[text]) for text in TEXTS]
    for thread in asking:
        thread.start()
    try:
        wait_until(lambda: seen(200, after=0), site.worker)
        site.valkey.kill()
        wait_until(lambda: seen(503, after=0), site.worker)
        site.valkey.start()
        again = len(answers)
        wait_until(lambda: seen(200, after=again), site.worker)
    finally:
        enough.set()
        for thread in asking:
            thread.join()
    for text, answer in answers:
        if answer.status_code == 200:
            site.assert_right(answer, text)
        else:
            assert_refused(answer, ErrorCode.WORKER_UNAVAILABLE)
    wait_until(lambda: site.waiting() == 0, site.worker)


def test_computed_requests_are_answered_without_postgres(site: Installation) -> None:
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.postgres.kill()
    site.worker.resume()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)


def test_requests_are_refused_without_the_database_and_answered_once_it_is_back(site: Installation) -> None:
    worker, web = site.worker, site.web.child.pid
    site.assert_right(site.ask("before"), "before")
    site.postgres.kill()
    for _ in range(3):
        assert_refused(site.ask("meanwhile"), ErrorCode.DATABASE_UNAVAILABLE)
    assert site.get("/health/live").status_code == 200
    health = site.get("/health/ready")
    assert (health.status_code, health.json()["database"]) == (503, "failed")
    assert health.json()["inference_worker"] == "ok"

    site.postgres.start()
    wait_until(lambda: site.get("/health/ready").status_code == 200, worker)
    site.assert_right(site.ask("after"), "after")
    assert worker.process.poll() is None
    assert (site.web.child.pid, site.web.runs()) == (web, True)


def test_page_of_a_signed_in_member_is_503_without_the_database(site: Installation) -> None:
    with httpx.Client(base_url=site.web.url, trust_env=False, timeout=60, follow_redirects=True) as person:
        person.get("/login/")
        token = next(value for name, value in person.cookies.items() if name.startswith("hmi_csrf"))
        form = {"login": "owner", "password": PASSWORD, "csrfmiddlewaretoken": token}
        page = person.post("/login/", data=form, headers={"Referer": site.web.url})
        # A wrong password is answered with 200 too, by the same page.
        assert (page.status_code, page.url.path) == (200, "/t/acme/")
        site.postgres.kill()
        page = person.get("/")
    assert page.status_code == 503
    assert int(page.headers["Retry-After"]) > 0
    assert "database" in page.text


def test_first_requests_after_an_unnoticed_restart_are_answered(site: Installation) -> None:
    """Connections that the web kept from before are of no use, and must not be tried on them."""
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.worker.resume()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)
    site.postgres.kill()
    site.postgres.start()
    for text in TEXTS:
        site.assert_right(site.ask(text), text)


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
