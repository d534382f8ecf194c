"""Sites of one test, and one that several tests look at."""

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hmi_site.embedded.runtime_dir import runtime_dir
from tests.integration.launcher.site import Site

NewSite = Callable[..., Site]


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """The launcher and its children see the rows of all tenants."""


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[NewSite]:
    """Makes sites that are stopped when the test ends."""
    with sites_in(tmp_path) as make:
        yield make


@contextmanager
def sites_in(folder: Path) -> Iterator[NewSite]:
    """Makes sites with homes in the folder, and stops them at the end."""
    sites: list[Site] = []

    def make(name: str = "home", *, port: int | None = None, env: dict[str, str] | None = None) -> Site:
        sites.append(Site(folder / name, port=port or free_port(), env=env))
        return sites[-1]

    try:
        yield make
    finally:
        for site in sites:
            site.end()
            shutil.rmtree(runtime_dir(site.home), ignore_errors=True)  # a killed launcher cannot


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
