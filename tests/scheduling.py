"""Which tests go together to one of several processes, and which go first.

Those of a file go together, and those of some folders. The longest begin, so that no process is left with a
long file when the others have nothing more to do.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]
LONG_FILES = Path(__file__).with_name("long_files.toml")
TOGETHER = ("tests/integration/serving_faults/",)
"""Folders whose files share a running product."""


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """As `--dist loadfile`, in the order in which tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    @classmethod
    def for_run(cls, config: pytest.Config, log: Any) -> "Scheduling":
        """For a run with these options."""
        config.option.loadscopereorder = False
        return cls(config, log)


def unit_of(nodeid: str) -> str:
    """What the test goes together with: a folder, or its file."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def longest_first(tests: Iterable[tuple[str, bool]]) -> dict[str, float]:
    """The units of tests in the order in which they begin, with the seconds they take, as far as known. Each
    test is its id and whether it is slow."""
    known = tomllib.loads(LONG_FILES.read_text(encoding="utf-8"))
    seconds: dict[str, float] = {}
    seen = set[tuple[str, str]]()
    for nodeid, slow in tests:
        unit, file, kind = unit_of(nodeid), nodeid.split("::", 1)[0], "slow" if slow else "test"
        seconds.setdefault(unit, 0.0)
        if (file, kind) not in seen:
            seconds[unit] += known[kind].get(file, 0.0)
            seen.add((file, kind))
    return dict(sorted(seconds.items(), key=lambda unit: -unit[1]))


def put_in_order(items: list[pytest.Item]) -> None:
    """The longest units first; the others, and the tests of a unit, as they were."""
    units = longest_first((item.nodeid, item.get_closest_marker("slow") is not None) for item in items)
    places = {unit: place for place, unit in enumerate(units)}
    items.sort(key=lambda item: places[unit_of(item.nodeid)])
