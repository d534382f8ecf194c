"""Whatever ends a start or a run, the person at the terminal gets a reason, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pytest_django import Settings
from rich.console import Console

from hmi_site.embedded.process import Child, ChildError
from hmi_site.launcher import stack as stack_module
from hmi_site.launcher import supervisor as supervisor_module
from hmi_site.launcher.stack import Stack
from hmi_site.launcher.supervisor import Service
from tests.processes import wait_until

LASTING = "import time; time.sleep(60)"
NOISY_END = "print('what went wrong'); raise SystemExit(3)"
MakeStack = Callable[..., Stack]


@pytest.fixture
def make_stack(tmp_path: Path, settings: Settings) -> MakeStack:
    """A stack that does something else than to start the product."""
    settings.HMI_HOME = settings.HMI_LOG_ROOT = settings.HMI_RUNTIME_DIR = tmp_path

    def make(start: Callable[[Stack], None]) -> Stack:
        made = Stack(Console(quiet=True))
        made._start = lambda: start(made)  # type: ignore[method-assign]
        return made

    return make


def once_there(flag: Path, code: str) -> str:
    """The code, once this file is there."""
    return f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)\n{code}"


def python_child(folder: Path, code: str, name: str = "example") -> Child:
    return Child(name=name, command=[sys.executable, "-S", "-c", code], log=folder / f"{name}.log")


def service(child: Child, *, ready: bool = True, is_optional: bool = False) -> Service:
    """The child as what the launcher looks after; it is ready at once, or never."""
    return Service(lambda: (child, lambda: ready), is_optional=is_optional)


def test_a_child_that_dies_while_it_starts_is_named_with_the_end_of_its_log(
    make_stack: MakeStack, tmp_path: Path
) -> None:
    children = [python_child(tmp_path, NOISY_END), python_child(tmp_path, LASTING, "other")]
    stack = make_stack(lambda one: one._start_stage(*(service(child, ready=False) for child in children)))
    with pytest.raises(ChildError, match=r"(?s)example ended with exit code 3.*what went wrong"), stack:
        pytest.fail("it cannot have started")
    assert children[1].exit_code() is not None


@pytest.mark.parametrize("code", [os.EX_UNAVAILABLE, os.EX_SOFTWARE])
def test_the_product_starts_while_an_optional_child_has_no_device_and_says_so(
    make_stack: MakeStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(supervisor_module, "RESTART_DELAY_S", 0.01)
    monkeypatch.setattr(supervisor_module, "EXIT_WINDOW_S", 600.0)  # a busy machine starts Python slowly
    worker = python_child(tmp_path, f"print('no GPU'); raise SystemExit({code})")
    web = python_child(tmp_path, LASTING, "web")

    def start(stack: Stack) -> None:
        stack._start_stage(service(worker, ready=False, is_optional=True))
        stack._start_stage(service(web))

    with make_stack(start):
        wait_until(lambda: [one.name for one in restarts(tmp_path) if one.is_down] == ["example"])
        assert web.exit_code() is None


@pytest.mark.parametrize(("code", "is_optional"), [(2, True), (os.EX_UNAVAILABLE, False)])
def test_the_product_does_not_start_with_a_wrong_setting_or_without_what_all_need(
    make_stack: MakeStack, tmp_path: Path, code: int, is_optional: bool
) -> None:
    child = python_child(tmp_path, f"raise SystemExit({code})")
    stack = make_stack(lambda one: one._start_stage(service(child, ready=False, is_optional=is_optional)))
    with pytest.raises(ChildError, match=f"example ended with exit code {code}"), stack:
        pytest.fail("it cannot have started")


def test_the_product_starts_while_an_optional_child_is_late(
    make_stack: MakeStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "READY_TIMEOUT_S", 0.0)
    worker = python_child(tmp_path, LASTING)
    stack = make_stack(lambda one: one._start_stage(service(worker, ready=False, is_optional=True)))
    with stack:
        assert worker.exit_code() is None
        assert not stack._services()[0].is_up
        other = python_child(tmp_path, LASTING, "other")
        with pytest.raises(ChildError, match="other is not ready"):
            stack._start_stage(service(other, ready=False))


def test_a_child_that_dies_while_another_is_being_started_leaves_nothing(
    make_stack: MakeStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other is there already, but whoever starts it does not know its process id yet."""
    children = [python_child(tmp_path, NOISY_END), python_child(tmp_path, LASTING, "other")]
    started: list[int] = []

    class Late(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self.pid)
            while len(started) == len(children) and children[0].exit_code() is None:
                time.sleep(0.01)

    monkeypatch.setattr(subprocess, "Popen", Late)
    stack = make_stack(lambda one: one._start_stage(*(service(child, ready=False) for child in children)))
    with pytest.raises(ChildError, match="example ended with exit code 3"), stack:
        pytest.fail("it cannot have started")
    assert children[1].exit_code() is not None
    assert [pid for pid in started if psutil.pid_exists(pid)] == []


def test_a_second_death_during_the_clean_up_changes_nothing(
    make_stack: MakeStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log_tail(child: Child) -> str:
        os.kill(os.getpid(), signal.SIGCHLD)
        return "(the log)"

    monkeypatch.setattr(Child, "log_tail", log_tail)
    stack = make_stack(
        lambda one: one._start_stage(service(python_child(tmp_path, NOISY_END), ready=False)),
    )
    with pytest.raises(ChildError, match="example ended with exit code 3"), stack:
        pytest.fail("it cannot have started")


def test_a_lost_connection_is_explained_by_the_end_of_the_server(
    make_stack: MakeStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sees it first; the signal of the child's end may come later."""
    monkeypatch.setattr(stack_module, "EXIT_SIGNAL_DELAY_S", 30.0)  # a busy machine starts Python slowly

    def start(stack: Stack) -> None:
        child = python_child(tmp_path, f"import time; time.sleep(0.2); {NOISY_END}")
        stack._start_stage(service(child))
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with pytest.raises(ChildError, match="example ended with exit code 3"), make_stack(start):
        pytest.fail("it cannot have started")


def restarts(folder: Path) -> list[supervisor_module.Restart]:
    return supervisor_module.recent_restarts(folder, datetime.now(UTC))


def test_ctrl_c_while_a_child_waits_for_its_restart_leaves_nothing(
    make_stack: MakeStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "RESTART_DELAY_S", 600.0)
    started = tmp_path / "started"
    child = python_child(tmp_path, once_there(started, "raise SystemExit(3)"))
    other = python_child(tmp_path, LASTING, "other")
    stack = make_stack(lambda one: one._start_stage(service(child), service(other)))
    with stack:
        started.touch()
        assert stack._supervisor is not None
        looked_after = stack._supervisor._services[0]
        wait_until(lambda: len(looked_after.exits) == 2 and looked_after.restart_at)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it goes on")
    assert [one for one in (child, other) if one.exit_code() is None] == []


def test_ctrl_c_leaves_the_block_quietly_even_when_pressed_twice(make_stack: MakeStack) -> None:
    stopped: list[float] = []
    stack = make_stack(lambda one: None)
    with stack:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        stopped.append(time.monotonic())
    assert stopped == []


def test_ctrl_c_during_the_start_is_no_error(make_stack: MakeStack) -> None:
    stack = make_stack(lambda one: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as end, stack:
        pytest.fail("it cannot have started")
    assert end.value.code == 0
