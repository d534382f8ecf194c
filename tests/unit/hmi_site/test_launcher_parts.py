"""The launcher's parts that need no server."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hmi_site import secret_key
from hmi_site.embedded.process import Child, ChildError
from hmi_site.launcher import children
from hmi_site.launcher.children import training_threads, usable_cpus
from hmi_site.launcher.lock import HomeLock
from hmi_site.launcher.web_server import choose_port
from tests.processes import wait_until


def test_a_home_is_locked_once_and_the_refusal_says_where_the_other_is(tmp_path: Path) -> None:
    with HomeLock(tmp_path) as lock:
        lock.write_url("http://127.0.0.1:8123")
        with pytest.raises(ChildError, match=rf"127\.0\.0\.1:8123 \(process {os.getpid()}\)"):
            HomeLock(tmp_path).__enter__()
    with HomeLock(tmp_path):
        pass


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        port = choose_port("127.0.0.1", number)
        port.listener.close()
    assert port.number > number
    assert port.taken[0] == number


def test_a_port_that_another_launcher_has_chosen_is_passed_over() -> None:
    first = choose_port("127.0.0.1", 18400)
    second = choose_port("127.0.0.1", first.number)
    assert second.number > first.number
    first.listener.close()
    again = choose_port("127.0.0.1", first.number)
    assert again.number == first.number
    again.listener.close()
    second.listener.close()


def test_a_host_without_an_address_is_said() -> None:
    with pytest.raises(ChildError, match=r"no\.such\.host\.invalid"):
        choose_port("no.such.host.invalid", 8000)


def test_training_leaves_a_processor_to_serving_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("hmi_site.launcher.children.CGROUP_QUOTA", Path("/nowhere"))
    assert training_threads(0) == 7
    assert training_threads(3) == 3


def test_only_the_training_worker_gets_the_token_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    starts = (children.inference_worker, children.training_worker, children.quick_worker, children.beat)
    others = (children.short_worker, children.long_worker)
    given = {child.name for start in (*starts, *others) if "HF_TOKEN" in (child := start()[0]).env}
    assert given == {"training worker"}


def test_a_containers_quota_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("hmi_site.launcher.children.CGROUP_QUOTA", quota)
    quota.write_text("150000 100000\n")
    assert usable_cpus() == 2
    quota.write_text("max 100000\n")
    assert usable_cpus() == 8


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    key = secret_key.read_or_create(tmp_path / "home")
    assert len(key) >= 50
    assert secret_key.read_or_create(tmp_path / "home") == key
    assert (tmp_path / "home" / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in (tmp_path / "home").iterdir()] == ["secret_key"]


def python_child(tmp_path: Path, code: str) -> Child:
    return Child(name="example", command=[sys.executable, "-c", code], log=tmp_path / "example.log")


def test_a_child_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = python_child(tmp_path, "print('what went wrong'); raise SystemExit(3)")
    child.start()
    assert child.process is not None
    child.process.wait()
    with pytest.raises(
        ChildError, match=r"(?s)example ended with exit code 3.*what went wrong.*example\.log"
    ):
        child.check_alive()


def test_a_log_that_has_grown_large_is_set_aside_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmi_site.embedded.process.MAX_LOG_BYTES", 10)
    child = python_child(tmp_path, "print('a long line', flush=True); input(); print('short')")
    child.log.write_text("old\n")
    child.rotate_log()
    assert child.log.read_text() == "old\n"
    with child.log.open("ab") as log:
        writing = subprocess.Popen(child.command, stdin=subprocess.PIPE, stdout=log)
        while "a long line\n" not in child.log.read_text():
            pass
        child.rotate_log()
        assert child.log.read_text() == ""
        writing.communicate(b"\n")
    assert child.log.read_text() == "short\n"
    assert (tmp_path / "example.log.1").read_text() == "old\na long line\n"


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)"
    child = python_child(tmp_path, f"{deaf}; time.sleep(60)")
    child.stop_timeout_s = 0.2
    child.start()
    while "up" not in child.log.read_text():
        pass
    child.stop()
    assert child.exit_code() == -signal.SIGKILL


def test_a_child_dies_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from hmi_site.embedded.process import Child\n"
        f"child = Child(name='x', command=['sleep', '60'], log=pathlib.Path({str(tmp_path / 'x.log')!r}))\n"
        "child.start(); time.sleep(0.3); print(child.pid, flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: is_gone(pid), within_s=10)


def is_gone(pid: int) -> bool:
    """Whether the process has ended. It may go while it is looked at."""
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
