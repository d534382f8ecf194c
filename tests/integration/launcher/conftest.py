"""Sites of one test."""

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hmi_site.embedded.runtime_dir import runtime_dir
from tests.integration.launcher.site import Site

NewSite = Callable[..., Site]


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[NewSite]:
    """Makes sites that are stopped when the test ends."""
    sites: list[Site] = []

    def make(name: str = "home", *, port: int | None = None, env: dict[str, str] | None = None) -> Site:
        sites.append(Site(tmp_path / name, port=port or free_port(), env=env))
        return sites[-1]

    yield make
    for site in sites:
        site.end()
        shutil.rmtree(runtime_dir(site.home), ignore_errors=True)  # a killed launcher cannot


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
