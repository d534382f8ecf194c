"""A peer answers batch by batch from a process of its own, and one that cannot be had says why."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from torch import Tensor

from benchmarks.serving.peers import environment, process
from benchmarks.serving.peers.client import Peer
from benchmarks.serving.peers.errors import PeerError, PeerFailed, PeerUnavailable
from benchmarks.serving.peers.program import Bench
from benchmarks.serving.peers.schemes import Batch, Loop, Settings

pytestmark = [pytest.mark.thorough, pytest.mark.unit]
LOOP = Settings(
    scheme="loop", layers=2, hidden=16, heads=2, inner=32, vocab=50, positions=32, tenants=3, dtype="float32"
)
HERE = Path(sys.executable)


READY = '{"ready": {"resident": 3, "versions": {}}}'


@pytest.fixture(scope="module")
def loop() -> Iterator[Peer]:
    """A peer that runs."""
    with Peer(LOOP, python=HERE) as peer:
        yield peer


def pretending(folder: Path, script: str) -> Path:
    """In place of Python, a shell script."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return python


def test_a_peer_measures_batch_after_batch(loop: Peer) -> None:
    seconds = [loop.measure(rows=4, tokens=8, tenants=tenants, seed=tenants) for tenants in (1, 3, 3)]
    assert all(0 < each < 60 for each in seconds)
    assert loop.resident == 3
    assert {"torch", "transformers"} <= loop.versions.keys()


def test_a_bad_request_is_told_and_does_not_end_the_peer(loop: Peer) -> None:
    with pytest.raises(PeerFailed, match="4 tenants in 8 rows, with 3 resident"):
        loop.measure(rows=8, tokens=8, tenants=4, seed=1)
    with pytest.raises(PeerFailed, match="33 tokens, with 32 positions"):
        loop.measure(rows=8, tokens=33, tenants=1, seed=1)
    assert loop.measure(rows=8, tokens=8, tenants=3, seed=1) > 0


def test_what_tenants_share_serves_any_number_of_them_and_ends_with_its_input() -> None:
    with Peer(replace(LOOP, scheme="base"), python=HERE) as peer:
        assert peer.measure(rows=4, tokens=8, tenants=4, seed=1) > 0
    assert peer._process.exit_code == 0


def test_leaving_ends_the_peer(tmp_path: Path) -> None:
    with Peer(LOOP, python=pretending(tmp_path, f"echo '{READY}'; read line")) as peer:
        assert peer._process.exit_code is None
    assert peer._process.exit_code is not None


def test_a_peer_that_dies_says_how(tmp_path: Path) -> None:
    dying = f"echo '{READY}'; read line; echo out of memory >&2; kill -9 $$"
    with (
        Peer(LOOP, python=pretending(tmp_path, dying)) as peer,
        pytest.raises(PeerFailed, match="ended with -9: out of memory"),
    ):
        peer.measure(rows=4, tokens=8, tenants=1, seed=1)


def test_a_peer_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with (
        pytest.raises(PeerUnavailable, match=r"no answer within 0\.2 s"),
        Peer(LOOP, python=pretending(tmp_path, "exec sleep 60"), patience_s=0.2),
    ):
        pass


def test_a_peer_whose_library_is_not_there_is_unavailable() -> None:
    with (
        pytest.raises(PeerUnavailable, match="adapters"),
        Peer(replace(LOOP, scheme="batchsplit"), python=HERE),
    ):
        pass


def test_a_python_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match="No such file"), Peer(LOOP, python=tmp_path / "python"):
        pass


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
    with pytest.raises(PeerError, match="goes on without them") as told, Peer(replace(LOOP, scheme="peft")):
        pass
    assert "hmi-no-such-peer==1.0" in str(told.value)
    assert [file.suffix for file in (tmp_path / "peers").iterdir()] == [".lock"]


@pytest.mark.usefixtures("offline")
def test_what_an_environment_has_not_itself_it_takes_from_ours() -> None:
    ours = f"numpy=={version('numpy')}"
    assert environment.peers_python(packages=[ours]).is_file()
    with pytest.raises(PeerUnavailable, match=ours):
        environment.peers_python(packages=[ours], with_ours=False)


def test_an_environment_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []

    def build(folder: Path, *_: object) -> None:
        built.append(folder)
        folder.mkdir()

    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(environment, "_build", build)
    first, again = environment.peers_python(), environment.peers_python()
    assert first == again == built[0] / "bin" / "python"
    assert len(built) == 1


def test_our_own_packages_stay_out_of_the_peers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    around = process._own_environment(2)
    assert "PYTHONPATH" not in around
    assert around["OMP_NUM_THREADS"] == "2"


def test_rows_are_dealt_out_evenly_and_the_seed_draws_whose_they_are() -> None:
    def draw(seed: int) -> Batch:
        return Batch.draw(LOOP, 1000, rows=10, tokens=8, tenants=4, seed=seed)

    assert sorted(rows for _, rows in draw(1).groups()) == [2, 2, 3, 3]
    assert draw(1).owners == draw(1).owners != draw(2).owners
    assert draw(1).ids.equal(draw(1).ids)
    assert not draw(1).ids.equal(draw(2).ids)


def test_the_check_finds_what_is_answered_by_another_tenants_model(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(LOOP)
    right = bench.answer(check=True, rows=6, tokens=8, tenants=3, seed=1)
    assert right["difference"] < 1e-4 < right["apart"]
    run = Loop.run

    def wrong(self: Loop, ids: Tensor, batch: Batch) -> Tensor:
        return run(self, ids, Batch(batch.ids, batch.owners[::-1]))

    monkeypatch.setattr(Loop, "run", wrong)
    assert bench.answer(check=True, rows=6, tokens=8, tenants=3, seed=1)["difference"] > 0.1
