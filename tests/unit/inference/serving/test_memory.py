"""How much memory there is."""

import os
from pathlib import Path

import pytest

from inference.serving import device_ledger

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1048576\n", 1 << 20), ("max\n", MACHINE), (f"{2 * MACHINE}\n", MACHINE), (None, MACHINE)],
)
def test_a_container_has_what_its_limit_leaves_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, expected: int
) -> None:
    monkeypatch.setattr(device_ledger, "CGROUP_LIMIT", tmp_path / "memory.max")
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert device_ledger.machine_bytes() == expected
