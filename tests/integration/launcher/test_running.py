"""What a running site does; these tests look at one and the same."""

import shutil
import stat

import httpx
import pytest

from hmi_site.embedded.runtime_dir import runtime_dir
from tests.integration.launcher.conftest import NewSite
from tests.integration.launcher.site import Site, all_gone, listening

pytestmark = pytest.mark.slow


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


def test_a_body_sent_in_chunks_is_read_whole(running_site: Site) -> None:
    url = f"{running_site.url}/api/v1/infer"
    pieces = iter([b'{"username": "x', b'", "password"'])
    answer = httpx.post(url, content=pieces, trust_env=False, timeout=60)
    assert answer.json()["error"]["code"] in {"invalid_json", "unauthenticated"}
    too_long = (b"x" * 1024**2 for _ in range(20))
    answer = httpx.post(url, content=too_long, trust_env=False, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")  # not read on


def test_what_it_keeps_is_private(running_site: Site) -> None:
    for name in ("secret_key", "postgres", "valkey", "artifacts", "uploads", "logs", "slabs"):
        assert stat.S_IMODE((running_site.home / name).stat().st_mode) & 0o077 == 0


def test_it_ends_and_says_so_when_nothing_can_connect_to_it_any_more(neighbours: tuple[Site, Site]) -> None:
    """The last test here: one of the two is gone then."""
    _, site = neighbours
    processes = site.processes()
    shutil.rmtree(runtime_dir(site.home))
    assert site.exit_code() == 1
    assert "has been removed" in site.output
    assert "Traceback" not in site.output
    assert all_gone(processes) == []
