"""What a running site does; then each of its processes is killed in turn: it is started again, and what was
asked is answered. These tests look at one and the same."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
import psutil
import pytest

from hmi_site.embedded.runtime_dir import runtime_dir
from hmi_site.launcher.supervisor import recent_restarts
from hmi_site.server_urls import embedded_redis_url
from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.status import workers_alive
from tests.file_modes import open_to_others
from tests.integration.inference.queueing.requests import depth
from tests.integration.launcher.conftest import NewSite, free_port, sites_in
from tests.integration.launcher.site import CHECKOUT, Site, all_gone, clean_environment, listening
from tests.processes import wait_until

BACK_WITHIN_S = 600.0
TRIES = 60
FILLING = "tests.integration.serving_faults.fill"
PASSWORD = "medlar and rowan"
WORDS = {
    "inference worker": "inference.worker",
    "training worker": "training@",
    "quick worker": "quick@",
    "short worker": "short@",
    "long worker": "long@",
    "beat": "celery.beat",
    "web": "web_server",
    "PostgreSQL": "postgres -D",
    "Valkey": "valkey",
}


@dataclass
class Asked:
    """A running site, and a key for the model ``acme/mood``."""

    site: Site
    key: str

    def ask(self, *, tries: int = TRIES) -> httpx.Response:
        """What it says; asked again, as clients do, after a lost connection and where it says when."""
        headers = {"Authorization": f"Bearer {self.key}"}
        body = {"model": "acme/mood", "inputs": ["good morning"], "timeout_s": 60}
        for left in reversed(range(tries)):
            try:
                answer = httpx.post(
                    f"{self.site.url}/api/v1/infer", json=body, headers=headers, trust_env=False, timeout=120
                )
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in {429, 503, 504}:
                return answer
            assert left, answer and answer.text
            time.sleep(0.5)
        raise AssertionError

    def waiting(self) -> int:
        with connect(embedded_redis_url(runtime_dir(self.site.home))) as redis:
            return depth(redis)

    def forget_heartbeats(self) -> None:
        """As when they have expired."""
        with connect(embedded_redis_url(runtime_dir(self.site.home))) as redis:
            for worker in workers_alive(redis):
                redis.delete(keys.worker(worker.name))

    def restarts(self) -> dict[str, int]:
        told = recent_restarts(runtime_dir(self.site.home), datetime.now(UTC))
        return {one.name: one.count for one in told}

    def wait_until_up(self, name: str, times: int) -> None:
        """Until the launcher has said so often that it is ready again."""
        said = f"{name[0].upper()}{name[1:]}: ready again"
        wait_until(lambda: self.site.output.count(said) == times, within_s=BACK_WITHIN_S)


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """Two sites that were started at the same moment and wanted the same port."""
    port = free_port()
    with sites_in(tmp_path_factory.mktemp("neighbours")) as make:
        one, two = (make(name, port=port).start() for name in ("one", "two"))
        yield one.wait_until_ready(), two.wait_until_ready()


@pytest.fixture
def running_site(neighbours: tuple[Site, Site]) -> Site:
    """A site to look at and to leave as it is."""
    return neighbours[0]


@pytest.fixture(scope="module")
def asked(neighbours: tuple[Site, Site], tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The first of the two, with a model that answers."""
    site = neighbours[0]
    own = {"HMI_HOME": str(site.home), "DJANGO_SETTINGS_MODULE": "hmi_site.settings"}
    done = subprocess.run(
        [sys.executable, "-m", FILLING, str(tmp_path_factory.mktemp("scratch")), PASSWORD],
        cwd=CHECKOUT,
        env={**clean_environment(), **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = Asked(site, done.stdout.split()[-1])
    assert made.ask().status_code == 200
    return made


def test_two_homes_run_at_once_and_a_taken_port_is_said(neighbours: tuple[Site, Site]) -> None:
    first, second = neighbours
    assert first.url != second.url
    for site in neighbours:
        assert site.get("/health/live").json() == {"status": "live"}
        assert site.port in {one.laddr.port for process in site.processes() for one in listening(process)}
        assert site.get("/health/ready").json()["status"] == "ready"
    assert "is in use." in first.output + second.output
    assert "instead." in first.output + second.output


def test_a_second_copy_for_the_same_home_is_refused(running_site: Site, new_site: NewSite) -> None:
    second = new_site("other", env={"HMI_HOME": str(running_site.home)}).start()
    assert second.exit_code() == 1
    assert f"already runs for {running_site.home} at {running_site.url}" in second.output
    assert running_site.get("/health/ready").status_code == 200


def test_what_it_keeps_is_private(asked: Asked) -> None:
    assert {"secret_key", "postgres", "valkey", "artifacts", "uploads", "exports", "logs"} <= {
        path.name for path in asked.site.home.iterdir()
    }
    assert open_to_others(asked.site.home) == []


def test_it_ends_and_says_so_when_nothing_can_connect_to_it_any_more(neighbours: tuple[Site, Site]) -> None:
    """The second is gone then."""
    _, site = neighbours
    processes = site.processes()
    shutil.rmtree(runtime_dir(site.home))
    assert site.exit_code() == 1
    assert "has been removed" in site.output
    assert "Traceback" not in site.output
    assert all_gone(processes) == []


@pytest.mark.parametrize("name", WORDS)
def test_a_process_that_is_killed_is_started_again_and_requests_go_on(asked: Asked, name: str) -> None:
    site = asked.site
    killed = site.child(WORDS[name])
    family = [killed, *killed.children(recursive=True)]
    launcher = psutil.Process(site.process.pid)
    with ThreadPoolExecutor(2) as pool:
        going_on: list[Future[httpx.Response]] = [pool.submit(asked.ask) for _ in range(2)]
        killed.kill()
        asked.wait_until_up(name, 1)
        assert [one.result().status_code for one in going_on] == [200, 200]
    assert all_gone(family) == []
    assert site.child(WORDS[name]).pid != killed.pid
    assert launcher.is_running()
    assert asked.restarts()[name] == 1
    wait_until(lambda: site.get("/health/ready").status_code == 200, within_s=BACK_WITHIN_S)
    assert asked.ask(tries=1).status_code == 200


def test_a_request_in_flight_is_answered_when_the_inference_worker_is_back(asked: Asked) -> None:
    """Without being asked again: the web process waits for the answer, as long as the caller does."""
    before = asked.restarts().get("inference worker", 0)
    worker = asked.site.child(WORDS["inference worker"])
    worker.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asked.ask, tries=1)
        wait_until(lambda: asked.waiting() == 1)
        worker.kill()
        assert answer.result().status_code == 200
    asked.wait_until_up("inference worker", before + 1)
    assert asked.waiting() == 0


def test_a_request_made_while_no_inference_worker_lives_waits_for_the_next(asked: Asked) -> None:
    before = asked.restarts().get("inference worker", 0)
    asked.site.child(WORDS["inference worker"]).kill()
    asked.forget_heartbeats()
    assert asked.ask(tries=1).status_code == 200
    asked.wait_until_up("inference worker", before + 1)


def test_a_request_made_while_the_web_server_is_away_waits_for_the_next(asked: Asked) -> None:
    before = asked.restarts().get("web", 0)
    web = asked.site.child(WORDS["web"])
    family = [web, *web.children(recursive=True)]
    web.kill()
    wait_until(lambda: all_gone(family) == [])
    assert asked.ask(tries=1).status_code == 200
    asked.wait_until_up("web", before + 1)


def test_one_that_cannot_be_started_again_is_named_while_the_others_go_on(asked: Asked) -> None:
    site = asked.site
    before = site.child(WORDS["Valkey"]).pid
    times = site.output.count("PostgreSQL: ready again")
    setting = site.home / "postgres" / "postgresql.auto.conf"
    setting.write_text("no setting at all\n")
    site.child(WORDS["PostgreSQL"]).kill()
    wait_until(lambda: "PostgreSQL is down" in site.output, within_s=BACK_WITHIN_S)
    assert "no setting at all" in site.output or "postgresql.auto.conf" in site.output
    told = site.get("/health/ready")
    assert (told.status_code, told.json()["postgresql"]) == (503, "down")
    assert site.child(WORDS["Valkey"]).pid == before
    setting.write_text("")
    asked.wait_until_up("PostgreSQL", times + 1)
    wait_until(lambda: site.get("/health/ready").status_code == 200, within_s=BACK_WITHIN_S)
    assert asked.ask().status_code == 200
