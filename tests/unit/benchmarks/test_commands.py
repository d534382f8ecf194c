"""Each benchmark begins: it is imported, and its options are read."""

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import harness

BENCHMARKS = harness.ROOT / "benchmarks"


def is_command(file: Path) -> bool:
    """Whether the module is a benchmark; the programs of peers, say, show no help."""
    text = file.read_text(encoding="utf-8")
    return "__main__" in text and "__doc__" in text


COMMANDS = [
    ".".join(file.relative_to(harness.ROOT).with_suffix("").parts)
    for file in sorted(BENCHMARKS.rglob("*.py"))
    if is_command(file)
]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_benchmark_lists_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module(name).main(["--help"])
    assert ended.value.code == 0
    assert "--quick" in capsys.readouterr().out


def test_each_command_stands_in_the_docs() -> None:
    documented = (harness.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    names = [name.removeprefix("benchmarks.").removesuffix(".__main__") for name in COMMANDS]
    assert len(names) > 10
    assert [name for name in names if f"| `{name}`" not in documented] == []
