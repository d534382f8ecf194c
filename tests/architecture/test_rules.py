"""Rules of the code that imports do not show."""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAST_THE_SELECTORS = {"objects", "unscoped", "for_tenant"}
PACKAGES = (
    "hmi_site",
    "tenants",
    "versiontree",
    "inference",
    "workers",
    "frontend",
    "hmi_client",
    "benchmarks",
)


def queries_in(file: Path) -> Iterator[str]:
    """Where a file asks the database by itself."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in PAST_THE_SELECTORS:
            yield f"{file.relative_to(CHECKOUT)}:{node.lineno}: .{node.attr}"


def test_pages_ask_selectors_and_services_never_the_tables() -> None:
    files = list((CHECKOUT / "frontend").rglob("*.py"))
    assert len(files) > 20
    assert [query for file in files for query in queries_in(file)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_our_own_code_uses_of_the_past_fails_the_tests(package: str) -> None:
    with pytest.raises(DeprecationWarning):
        warnings.warn_explicit("old", DeprecationWarning, f"{package}.py", 1, module=f"{package}.example")


def test_what_others_use_of_the_past_does_not() -> None:
    warnings.warn_explicit("old", DeprecationWarning, "other.py", 1, module="celery.example")
