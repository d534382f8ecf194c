"""Another checkout: deep, with spaces in its path, of an ordinary user, beside a PostgreSQL and a Redis."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.launcher.conftest import free_port
from tests.integration.launcher.site import CHECKOUT, Site, all_gone

pytestmark = pytest.mark.thorough
USER = pwd.getpwnam("nobody")  # initdb wants a user with a name
DEEP = "a folder with spaces/" + "/".join(f"level {number} of a deep tree" for number in range(7)) + "/it's"


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of this checkout that belongs to whoever will run it."""
    base = Path(tempfile.mkdtemp(prefix="hmi-elsewhere-"))
    base.chmod(0o755)
    copy = base / DEEP
    try:
        for name in files_of_checkout():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, copy / name)
        (copy / ".venv").symlink_to(sys.prefix)
        if os.getuid() == 0:
            subprocess.run(
                ["chown", "--recursive", "--no-dereference", f"{USER.pw_uid}:{USER.pw_gid}", base], check=True
            )
        yield copy
    finally:
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def as_ordinary_user() -> list[str]:
    """What to put before a command so that it does not run as root."""
    if os.getuid() != 0:
        return []
    plain = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"]
    # Where Python lies in root's private home: the right to read it, and no other.
    reading = [*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    for prefix in (plain, reading):
        with contextlib.suppress(OSError):
            command = [*prefix, sys.executable, "-c", "import sys, django; print(sys.version)"]
            done = subprocess.run(command, capture_output=True, check=False, text=True)
            if done.stdout.strip() == sys.version.strip():  # and not a fall-back to another Python
                return prefix
    pytest.skip(f"root cannot run {sys.executable} as an ordinary user here")


@pytest.fixture
def crowded() -> Iterator[None]:
    """Somebody listens on the ports of PostgreSQL and Redis: we do, unless others do already."""
    with contextlib.ExitStack() as listeners:
        for number in (5432, 6379):
            listener = listeners.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", number))
                listener.listen()
        yield


def files_of_checkout() -> list[str]:
    """What git knows or would add."""
    listing = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout")
    return [name for name in done.stdout.split("\0") if (CHECKOUT / name).is_file()]


def test_it_runs_for_an_ordinary_user_wherever_the_checkout_lies(
    checkout: Path, as_ordinary_user: list[str], crowded: None
) -> None:
    site = Site(checkout / "var", port=free_port(), checkout=checkout, env={"HMI_HOME": ""})
    assert len(str(site.home)) > 200
    site.python = str(checkout / ".venv" / "bin" / "python")
    site.output_file = checkout.parent / "output"
    try:
        site.start(*as_ordinary_user).wait_until_ready()
        assert site.get("/health/ready").json()["status"] == "ready"
        assert site.home.stat().st_uid != 0
        processes = site.processes()
        assert {process.uids().real for process in processes} == {site.home.stat().st_uid}
        assert site.signal(signal.SIGINT) == 0
        assert all_gone(processes) == []
    finally:
        site.end()
