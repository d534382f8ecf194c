"""The process that tries imported weights reaches nothing of the installation but the artifacts it tries."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from hmi_site.server_urls import socket_folders
from tenants.base.errors import HmiError
from tests.integration.versiontree.transfer.test_trial import wanted
from tests.skips import skip_unless_ci
from versiontree.transfer.archive import sandboxed_check
from versiontree.transfer.archive.sandboxed_check import (
    AdapterExportRequest,
    ArtifactCheck,
    artifacts_check,
    sandbox_response,
)

__all__ = ["wanted"]
PROGRAM = """
import json, os, pathlib, socket, sys
asked = json.load(sys.stdin)

def reaches(act):
    try:
        act()
        return True
    except OSError:
        return False

def connects(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)

def dials(port):
    socket.create_connection(("127.0.0.1", port), timeout=5).close()

print(json.dumps({"is": EXPRESSION}))
"""


@pytest.fixture
def granted() -> None:
    if not sandboxed_check._sandboxed():
        skip_unless_ci("this machine grants no namespaces")


@pytest.fixture
def home(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """A home of its own with a key, and a service that listens on a socket in it."""
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True)
    (home / "secret_key").write_text("secret")
    settings.HMI_HIDDEN_FOLDERS = [home, tmp_path / "nowhere", home / "run"]
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(home / "run" / "s"))
        service.listen()
        yield home


@pytest.fixture
def inside(wanted: dict[str, Any], settings: Settings) -> Callable[[str], Any]:
    """What an expression is in the process."""

    def ask(expression: str) -> Any:
        program = PROGRAM.replace("EXPRESSION", expression)
        settings.HMI_ARTIFACT_CHECK = (sys.executable, "-c", program)
        return artifacts_check(ArtifactCheck(**wanted))["is"]

    return ask


@pytest.mark.usefixtures("granted")
def test_neither_sockets_nor_the_key_nor_the_network_are_reached(
    home: Path, inside: Callable[[str], Any]
) -> None:
    at, key = str(home / "run" / "s"), str(home / "secret_key")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as seen_from_here:
        seen_from_here.connect(at)
        port = server.getsockname()[1]
        for act in (f"connects({at!r})", f"open({key!r})", f"dials({port})"):
            assert not inside(f"reaches(lambda: {act})"), act


@pytest.mark.usefixtures("granted")
def test_no_other_process_is_seen_and_none_leads_out(home: Path, inside: Callable[[str], Any]) -> None:
    seen = inside("[name for name in os.listdir('/proc') if name.isdigit()]")
    assert set(seen) <= {"1", "2"}
    out = f"/proc/{os.getpid()}/root{home}/secret_key"
    assert (
        inside(f"[reaches(lambda: open({out!r})), reaches(lambda: os.kill({os.getpid()}, 0))]") == [False] * 2
    )


@pytest.mark.usefixtures("granted")
def test_what_lies_in_a_hidden_folder_is_seen_where_it_is_needed(
    tmp_path: Path, home: Path, settings: Settings
) -> None:
    for name in ("root", "hplm", "work"):
        (home / name).mkdir()
        (home / name / "file").write_text(name)
    looks = (
        "[open(asked['root'] + '/file').read(), reaches(lambda: open(asked['root'] + '/file', 'a')), "
        "reaches(lambda: open(asked['out'], 'x')), reaches(lambda: open(asked['root'] + '/../secret_key'))]"
    )
    settings.HMI_ARTIFACT_CHECK = (sys.executable, "-c", PROGRAM.replace("EXPRESSION", looks))
    names = {name: str(home / name) for name in ("root", "hplm")}
    answer = sandbox_response(AdapterExportRequest(**names, out=str(home / "work" / "out"), format="peft"))
    assert answer == {"is": ["root", False, True, False]}
    assert (home / "work" / "out").is_file()


@pytest.mark.usefixtures("granted")
def test_it_ends_as_the_program_in_it_does(wanted: dict[str, Any], settings: Settings) -> None:
    for how, words in (
        ("os.kill(os.getpid(), 11)", "process crashed while loading the artifacts"),
        ("sys.exit(3)", "process crashed while loading the artifacts"),
    ):
        settings.HMI_ARTIFACT_CHECK = (sys.executable, "-c", f"import os, sys; {how}")
        with pytest.raises(HmiError, match=words):
            artifacts_check(ArtifactCheck(**wanted))


@pytest.mark.usefixtures("granted")
def test_a_process_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    program = f"import os, time; open({str(tmp_path / 'began')!r}, 'w').close(); time.sleep(1000)"
    command = [*django_settings.HMI_SANDBOX, "--", sys.executable, "-c", program]
    with subprocess.Popen(
        command, cwd=django_settings.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write(b"\n")
        one.stdin.flush()
        while not (tmp_path / "began").exists():
            assert one.poll() is None
        one.send_signal(signal.SIGKILL)
        assert one.stdout.read() == b""  # whoever held its other end has ended, too


@pytest.mark.parametrize("sandbox", [("false",)])
def test_a_machine_that_grants_none_is_told_of_once_and_artifacts_are_tried_all_the_same(
    sandbox: tuple[str, ...],
    home: Path,
    inside: Callable[[str], Any],
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.HMI_SANDBOX = sandbox
    sandboxed_check._sandboxed.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, "versiontree.transfer.archive.sandboxed_check"):
            assert inside("1") == inside("1") == 1
        assert len(caplog.records) == 1
    finally:
        sandboxed_check._sandboxed.cache_clear()


def test_folders_of_sockets_are_those_of_both_services() -> None:
    assert socket_folders("/run/postgresql,db.example", "unix:///run/valkey/s.sock?db=1") == [
        Path("/run/postgresql"),
        Path("/run/valkey"),
    ]
    assert socket_folders("db.example", "redis://cache.example:6379/0") == []


def test_the_installations_own_folders_are_hidden() -> None:
    hidden = {str(folder) for folder in django_settings.HMI_HIDDEN_FOLDERS}
    assert {str(django_settings.HMI_HOME), str(django_settings.HMI_RUNTIME_DIR)} <= hidden
