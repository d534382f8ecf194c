"""How packages are installed, with programs in place of uv and of the environment's Python."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from requirements.installers import UV, Installer

RECORDER = """#!{python}
import json, os, sys
with open({calls!r}, "a") as file:
    print(json.dumps([{name!r}, *sys.argv[1:]]), file=file)
if sys.argv[1:] == ["-m", "pip", "config", "list"]:
    print({settings!r})
sys.exit({status} if "install" in sys.argv else 0)
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder with the environment's programs, and the file of the calls of each."""

    folder: Path

    def program(self, place: str, name: str, *, settings: str = "", status: int = 0) -> Path:
        file = self.folder / place / name
        file.parent.mkdir(exist_ok=True)
        calls = str(self.folder / "calls")
        file.write_text(
            RECORDER.format(python=sys.executable, calls=calls, name=name, settings=settings, status=status)
        )
        file.chmod(0o755)
        return file

    def installs(self) -> list[list[str]]:
        calls = map(json.loads, (self.folder / "calls").read_text().splitlines())
        return [call for call in calls if "install" in call]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return Machine(tmp_path)


def test_uv_installs_from_where_pip_would(machine: Machine) -> None:
    settings = (
        "global.extra-index-url='https://one.example/simple file:///two/simple'\n"
        "global.find-links='/not-this'\n"
        "install.no-index='false'\n"
        ":env:.find-links='/wheels'\n"
        ":env:.disable-pip-version-check='1'"
    )
    python = machine.program("bin", "python", settings=settings)
    machine.program("path", "uv")
    assert Installer(str(python)).install("torch")
    assert machine.installs() == [
        [
            *("uv", "pip", "install", "--python", str(python), "--index-strategy", "unsafe-best-match"),
            *("--index", "https://one.example/simple", "--index", "file:///two/simple"),
            *("--find-links", "/wheels", "torch"),
        ]
    ]


def test_pip_installs_where_uv_has_no_such_setting(machine: Machine) -> None:
    python = machine.program("bin", "python", settings="global.upgrade-strategy='eager'")
    machine.program("path", "uv")
    assert Installer(str(python)).install("torch")
    ((name, *_, last),) = machine.installs()
    assert (name, last) == ("python", "torch")


def test_pip_installs_what_uv_refuses(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    python = machine.program("bin", "python")
    machine.program("path", "uv", status=2)
    installer = Installer(str(python))
    assert installer.install("torch")
    assert installer.install("numpy")
    assert [(call[0], call[-1]) for call in machine.installs()] == [
        ("uv", "torch"),
        ("python", "torch"),
        ("python", "numpy"),
    ]
    assert "pip tries" in capsys.readouterr().out


def test_without_uv_pip_asks_the_index_for_it_and_then_installs_itself(machine: Machine) -> None:
    python = machine.program("bin", "python", status=1)
    assert not Installer(str(python)).install("torch")
    assert [call[-1] for call in machine.installs()] == [UV, "torch"]
