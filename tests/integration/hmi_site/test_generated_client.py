"""A client that `openapi-python-client` generates from the served description."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from django.test import Client

from hmi_site.openapi.schema import METHODS
from tests.peers import peer_python

pytestmark = pytest.mark.slow
REQUIREMENTS = Path(__file__).parent / "peers/openapi_python_client.txt"
LONGEST_S = 800
IMPORT_ALL = """
import importlib, json, pkgutil
import made.api as api
operations = [each for each in pkgutil.walk_packages(api.__path__, "made.api.") if not each.ispkg]
for each in operations:
    importlib.import_module(each.name)
print(json.dumps(len(operations)))
"""


def test_it_has_every_operation_and_was_made_without_a_warning(client: Client, tmp_path: Path) -> None:
    described = client.get("/api/schema/", headers={"Accept": "application/json"}).json()
    (tmp_path / "schema.json").write_text(json.dumps(described))
    python = str(peer_python(REQUIREMENTS))
    generate = ["generate", "--path", "schema.json", "--output-path", "made", "--meta", "none"]
    made = run(tmp_path, python, "-m", "openapi_python_client", *generate, "--fail-on-warning")
    assert "WARNING" not in made
    operations = sum(method in methods for methods in described["paths"].values() for method in METHODS)
    assert json.loads(run(tmp_path, python, "-c", IMPORT_ALL)) == operations


def run(folder: Path, *command: str) -> str:
    """What the command says. It finds what was installed beside its Python, such as a formatter."""
    env = os.environ | {"PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
