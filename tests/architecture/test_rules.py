"""Rules of the code that imports do not show."""

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAST_THE_SELECTORS = {"objects", "unscoped", "for_tenant"}


def queries_in(file: Path) -> Iterator[str]:
    """Where a file asks the database by itself."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in PAST_THE_SELECTORS:
            yield f"{file.relative_to(CHECKOUT)}:{node.lineno}: .{node.attr}"


def test_pages_ask_selectors_and_services_never_the_tables() -> None:
    files = list((CHECKOUT / "frontend").rglob("*.py"))
    assert len(files) > 20
    assert [query for file in files for query in queries_in(file)] == []


def test_choices_of_the_api_are_fields_that_name_the_choices_when_they_refuse() -> None:
    files = [
        file for app in ("tenants", "versiontree", "inference") for file in (CHECKOUT / app).rglob("*.py")
    ]
    assert len(files) > 100
    plain = [file for file in files if "serializers.ChoiceField(" in file.read_text()]
    assert [str(file.relative_to(CHECKOUT)) for file in plain] == []
