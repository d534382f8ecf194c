"""A peer answers from a process of its own, and one that cannot be had says why."""

from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.serving.peers import environment
from benchmarks.serving.peers.environment import PeerFailed, PeerUnavailable
from benchmarks.serving.peers.process import PeerProcess

pytestmark = pytest.mark.thorough


def peer(folder: Path, script: str, *, patience_s: float = 60.0) -> PeerProcess:
    """A peer whose Python is a shell script."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return PeerProcess(python, "program", "{}", threads=1, patience_s=patience_s)


def test_a_peer_answers_a_request_and_ends_with_its_input(tmp_path: Path) -> None:
    running = peer(tmp_path, """read line; echo '{"seconds": 1}'; read line""")
    running.send({})
    assert running.receive() == {"seconds": 1}
    assert running.exit_code is None
    running.end()
    assert running.exit_code is not None


def test_a_peer_that_refuses_a_request_goes_on(tmp_path: Path) -> None:
    running = peer(tmp_path, """echo '{"error": "33 tokens"}'; echo '{"seconds": 1}'""")
    with pytest.raises(PeerFailed, match="33 tokens"):
        running.receive()
    assert running.receive() == {"seconds": 1}
    running.end()


def test_a_peer_that_dies_says_how(tmp_path: Path) -> None:
    dying = peer(tmp_path, "echo out of memory >&2; kill -9 $$")
    with pytest.raises(PeerFailed, match="ended with -9: out of memory"):
        dying.receive()
    dying.end()


def test_a_peer_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    silent = peer(tmp_path, "exec sleep 60", patience_s=0.2)
    with pytest.raises(PeerFailed, match=r"no answer within 0\.2 s"):
        silent.receive()
    silent.end()


def test_a_python_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match="No such file"):
        PeerProcess(tmp_path / "python", "program", "{}", threads=1, patience_s=1.0)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be fetched, and no environment is there."""
    closed = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    for name, value in {"HMI_BENCH_DIR": str(tmp_path), **closed}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("offline")
def test_without_a_network_the_message_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PACKAGES", ("hmi-no-such-peer==1.0",))
    with pytest.raises(PeerUnavailable, match="goes on without them") as told:
        environment.peers_python()
    assert "hmi-no-such-peer==1.0" in str(told.value)
    assert [file.suffix for file in (tmp_path / "peers").iterdir()] == [".lock"]


@pytest.mark.usefixtures("offline")
def test_what_an_environment_has_not_itself_it_takes_from_ours() -> None:
    ours = f"numpy=={version('numpy')}"
    assert environment.peers_python(packages=[ours]).is_file()
