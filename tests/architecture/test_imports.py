"""What each process loads, seen from outside, and the layers of the code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LINT = "from importlinter.cli import lint_imports_command as run; run()"
COMPUTING = ["inference.worker", "workers.training.fine_tune", "inference.hplm.reference"]
HANDING_OUT = ["hmi_site.wsgi", "hmi_site.asgi", "hmi_site.urls", "workers.tasks"]


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh process has loaded after running `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("module", COMPUTING)
def test_what_computes_loads_neither_django_nor_what_takes_long_to_load(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert "torch" in loaded
    assert loaded.isdisjoint({"django", "rest_framework", "celery", "psycopg", "transformers"})


@pytest.mark.parametrize("module", HANDING_OUT)
def test_what_serves_pages_or_hands_out_jobs_loads_no_torch(module: str) -> None:
    setup = "" if module.endswith("sgi") else "import django; django.setup()"  # servers import nothing else
    loaded = loaded_by(f"{setup}\nimport {module}")
    assert "django" in loaded
    assert loaded.isdisjoint({"torch", "transformers", "sklearn"})


def test_the_manifest_needs_the_standard_library_only() -> None:
    outside = loaded_by("import inference.manifest") - loaded_by("pass") - set(sys.stdlib_module_names)
    assert outside == {"inference"}


def test_the_layers_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout
