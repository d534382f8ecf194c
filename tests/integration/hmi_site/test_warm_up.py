"""A web server that takes requests has done once what the first of them would wait for."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import redis

from tests.integration.world import make_world

STARTED = """
import hmi_site.asgi
from django.db import connection
from inference.api import admission, submitter

print(connection.connection is None, admission._gateway._looked_at > 0, submitter._submitter is not None)
hmi_site.asgi.end()
"""


def run(code: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def test_it_has_looked_up_a_key_and_how_serving_stands(
    transactional_db: None, redis_client: redis.Redis, service_env: dict[str, str], upload_root: Path
) -> None:
    make_world()
    done = run(STARTED, service_env)
    assert done.stdout.split()[-3:] == ["True", "True", "True"], done.stderr
    assert "will wait" not in done.stdout + done.stderr


@pytest.mark.parametrize("away", ["DATABASE_URL", "REDIS_URL"])
def test_it_starts_while_a_server_is_away(
    transactional_db: None,
    redis_client: redis.Redis,
    service_env: dict[str, str],
    tmp_path: Path,
    away: str,
) -> None:
    nowhere = {
        "DATABASE_URL": f"postgresql:///hmi?host={tmp_path}",
        "REDIS_URL": f"unix://{tmp_path}/none.sock",
    }
    code = "import hmi_site.asgi; print(callable(hmi_site.asgi.application))"
    done = run(code, {**service_env, away: nowhere[away]})
    assert done.stdout.split()[-1:] == ["True"], done.stderr
    assert "The first requests will be slow" in done.stdout + done.stderr
