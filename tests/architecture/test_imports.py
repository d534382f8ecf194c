"""What each process loads, seen from outside. `make lint` checks the layers of the code."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
COMPUTING = "import inference.worker, workers.training.fine_tune"
HANDING_OUT = [
    "import hmi_site.wsgi, hmi_site.asgi",  # servers import nothing else
    "import django; django.setup(); import hmi_site.urls, workers.tasks",
]
"""Together in one process: what none of them may load, they may not load together. Each takes seconds to
begin."""


@functools.cache
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


def test_what_computes_loads_neither_django_nor_what_takes_long_to_load() -> None:
    loaded = loaded_by(COMPUTING)
    assert "torch" in loaded
    assert loaded.isdisjoint({"django", "rest_framework", "celery", "psycopg", "transformers"})


@pytest.mark.parametrize("code", HANDING_OUT)
def test_what_serves_pages_or_hands_out_jobs_loads_no_torch(code: str) -> None:
    loaded = loaded_by(code)
    assert "django" in loaded
    assert loaded.isdisjoint({"torch", "transformers", "sklearn"})


def test_the_manifest_needs_the_standard_library_only() -> None:
    outside = loaded_by("import inference.manifest") - loaded_by("pass") - set(sys.stdlib_module_names)
    assert outside == {"inference"}


def test_scheduling_a_generation_needs_the_standard_library_only() -> None:
    outside = (
        loaded_by("import inference.generation.engine") - loaded_by("pass") - set(sys.stdlib_module_names)
    )
    assert outside == {"inference"}


FORK_AND_COMPUTE = """
import os
from importlib import import_module

from workers.tasks import TRAINING_MODULES

for name in TRAINING_MODULES:
    import_module(name)
import torch

child = os.fork()
if not child:
    torch.nn.functional.gelu(torch.ones(3000, 1000) @ torch.ones(1000, 1000)).sum()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_training_libraries_start_no_openmp_threads_that_forked_jobs_would_wait_for() -> None:
    assert "torch" in loaded_by(f"import django; django.setup()\n{FORK_AND_COMPUTE}")
