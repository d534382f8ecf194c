"""The table of settings in docs/operations.md, and the code that reads them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hmi_site import checks, env

CHECKOUT = Path(__file__).resolve().parents[3]
READERS = (
    "hmi_site",
    "tenants",
    "versiontree",
    "inference",
    "workers",
    "frontend",
    "benchmarks",
    "tests/e2e",
    "tests/integration/fuzz",
)
NAME = re.compile(r"(?:HMI_[A-Z_]+|DATABASE_URL|REDIS_URL)")
MADE_FROM_OTHERS = {"HMI_EXPORT_ROOT", "HMI_EMBEDDED_POSTGRES", "HMI_EMBEDDED_REDIS", "HMI_LOG_ROOT"}
FIXED = {"HMI_MAX_BODY_BYTES"}
OF_CLIENTS_AND_TESTS = {"HMI_API_KEY", "HMI_PROFILE", "HMI_URL", "HMI_TEST_HOME", "HMI_TEST_HOME_OF"}


def names_in(file: Path) -> Iterator[str]:
    """Every text of a Python file that is the name of a setting and nothing else."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            yield node.value


def test_every_setting_that_code_reads_is_documented_and_no_other() -> None:
    files = [file for folder in READERS for file in (CHECKOUT / folder).rglob("*.py")]
    read = (
        {name for file in files for name in names_in(file)} - MADE_FROM_OTHERS - FIXED - OF_CLIENTS_AND_TESTS
    )
    text = (CHECKOUT / "docs" / "operations.md").read_text()
    section = text.split("\n## Settings\n", 1)[1].split("\n## ", 1)[0]
    documented = set(re.findall(rf"`({NAME.pattern})`", section))
    assert len(read) > 30
    assert sorted(documented) == sorted(read)
    known = env.in_use.keys() | checks.OTHER_VARIABLES
    assert {name for name in documented if name.startswith("HMI_")} <= known
