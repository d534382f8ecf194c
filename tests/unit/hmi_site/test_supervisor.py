"""What ends is started again, after longer and longer waits, however often."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from hmi_site.embedded.process import Child
from hmi_site.launcher.supervisor import (
    EXIT_WINDOW_S,
    MAX_RESTART_DELAY_S,
    READY_TIMEOUT_S,
    RESTARTS_FILE,
    RestartRecord,
    Service,
    Supervisor,
    recent_restarts,
)
from tests.processes import wait_until
from tests.services import kill

LASTING = "import time; time.sleep(600)"
FAMILY = (
    "import subprocess, sys, time;"
    "print(subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']).pid, flush=True);"
    "time.sleep(600)"
)


class World:
    """One service that a supervisor looks after, by a clock that the test turns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.ready = True
        self.made: list[Child] = []
        self.code = LASTING
        self.printed = io.StringIO()
        self.service = Service(self._make)
        self.supervisor = Supervisor(
            [self.service],
            Console(file=self.printed, width=200),
            folder / RESTARTS_FILE,
            clock=lambda: self.now,
        )
        self.service.child.start()

    def _make(self) -> tuple[Child, Callable[[], bool]]:
        command = [sys.executable, "-S", "-c", self.code]
        self.made.append(Child(name="example", command=command, log=self.folder / "example.log"))
        return self.made[-1], lambda: self.ready

    def kill(self) -> None:
        """Kill the child and have the supervisor notice."""
        kill(self.service.child)
        self.supervisor.check_services()

    def is_down(self) -> bool:
        """Whether it is said to be."""
        return any(one.is_down for one in recent_restarts(self.folder, datetime.now(UTC)))

    def end(self) -> None:
        """Leave nothing behind."""
        for child in self.made:
            child.kill_group()

    def runs(self) -> bool:
        return self.service.child.process is not None and self.service.child.exit_code() is None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as ending:
        made = World(tmp_path)
        ending.callback(made.end)
        yield made


def test_the_first_time_it_is_started_again_at_once_and_then_later_and_later(world: World) -> None:
    for wait_s in (0, 1, 2, 4):
        world.kill()
        if wait_s:
            world.now += wait_s - 0.01
            world.supervisor.check_services()
            assert not world.runs()
            world.now += 0.02
        world.supervisor.check_services()
        assert world.runs()
        assert not world.service.is_up
        world.supervisor.check_services()
        assert world.service.is_up
    assert len({child.pid for child in world.made}) == 5


def test_one_that_dies_five_times_within_a_minute_is_down_until_it_has_run_for_a_minute(
    world: World,
) -> None:
    for _ in range(4):
        world.kill()
        world.now += 10
        world.supervisor.check_services()
    assert not world.is_down()
    world.kill()
    assert world.is_down()
    assert "Example is down; the other processes go on." in world.printed.getvalue()
    for _ in range(20):  # it is never given up
        world.now += MAX_RESTART_DELAY_S
        world.supervisor.check_services()
        assert world.runs()
        world.kill()
    world.now += MAX_RESTART_DELAY_S
    world.supervisor.check_services()
    world.supervisor.check_services()
    assert world.is_down()
    world.now += EXIT_WINDOW_S + 1
    world.supervisor.check_services()
    assert not world.is_down()


def test_one_that_says_that_its_device_is_not_available_is_down_at_once(world: World) -> None:
    world.code = f"raise SystemExit({os.EX_UNAVAILABLE})"
    world.kill()
    world.supervisor.check_services()
    assert not world.is_down()
    assert world.service.child.process is not None
    world.service.child.process.wait()
    world.supervisor.check_services()
    assert world.is_down()
    assert "Example is down; the other processes go on." in world.printed.getvalue()
    (one,) = recent_restarts(world.folder, datetime.now(UTC))
    assert one.reason == "ended with exit code 69, because something that it needs is not available"


def test_deaths_now_and_then_are_not(world: World) -> None:
    for _ in range(12):
        world.kill()
        world.now += 16
        world.supervisor.check_services()
        assert world.runs()


def test_one_that_is_never_ready_again_counts_as_ended(world: World) -> None:
    world.ready = False
    world.kill()
    world.supervisor.check_services()
    first = world.service.child
    world.now += READY_TIMEOUT_S + 1
    world.supervisor.check_services()
    assert first.exit_code() is not None
    assert world.is_down()
    world.supervisor.check_services()
    world.now += 1
    world.supervisor.check_services()
    assert world.service.child is not first
    assert world.runs()


def test_what_it_had_started_is_gone_before_it_is_started_again(world: World) -> None:
    world.code = FAMILY
    world.kill()
    world.supervisor.check_services()
    log = world.service.child.log
    wait_until(lambda: log.read_text().endswith("\n"))
    grandchild = psutil.Process(int(log.read_text()))
    world.code = LASTING
    world.kill()
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_restarts_of_long_ago_and_a_file_that_cannot_be_read_are_not_told(tmp_path: Path) -> None:
    assert recent_restarts(tmp_path, datetime.now(UTC)) == []
    then = datetime(2030, 1, 1, tzinfo=UTC)
    record = RestartRecord(tmp_path / RESTARTS_FILE, clock=lambda: then)
    record.add("web", "was ended by SIGKILL")
    record.add("web", "ended with exit code 1")
    (one,) = recent_restarts(tmp_path, then + timedelta(hours=23))
    assert (one.count, one.reason) == (2, "ended with exit code 1")
    assert recent_restarts(tmp_path, then + timedelta(hours=25)) == []
    for broken in ("", "[]", json.dumps([{"name": "web"}]), "null"):
        (tmp_path / RESTARTS_FILE).write_text(broken)
        assert recent_restarts(tmp_path, then) == []


def test_nothing_is_started_any_more_once_it_is_to_stop(world: World) -> None:
    world.kill()
    world.supervisor.stop()
    world.supervisor.check_services()
    assert not world.runs()
    world.supervisor.join()
