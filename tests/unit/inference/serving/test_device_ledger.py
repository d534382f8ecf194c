"""The ledger of a device: what is granted fits, whatever the host, the device, the roots and the tables."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference import machine_memory
from inference.errors import HplmError
from inference.serving import device_ledger
from inference.serving.device_ledger import DeviceLedger, ledger_of
from inference.serving.hot_tier import HotTier

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
KIB, GIB = 1 << 10, 1 << 30


@dataclass(frozen=True)
class Table:
    """Rows of zeros."""

    rows: int
    n: int = 3
    hidden: int = 4

    def __len__(self) -> int:
        return self.rows

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        out[:] = 0


@dataclass
class Cache:
    """As full as it may be."""

    bytes: int = 0

    def resize(self, budget_bytes: int) -> None:
        self.bytes = budget_bytes


@dataclass
class Worker:
    """A device with everything that a worker has there, as large as the ledger lets it be."""

    ledger: DeviceLedger
    fixed: dict[str, int] = field(default_factory=dict)
    caches: dict[str, Cache] = field(default_factory=dict)
    rows: HotTier = field(default_factory=lambda: HotTier(CPU))

    def __post_init__(self) -> None:
        for name, share in (("lower layers", 3), ("PETs", device_ledger.PET_SHARE)):
            self.cache(name, share)
        self.ledger.add_rows(self.rows.resize)

    def cache(self, name: str, share: int) -> None:
        self.caches[name] = Cache()
        self.ledger.add_cache(name, self.ledger.total_bytes // share, self.caches[name].resize)

    def load(self, name: str, weights: int) -> None:
        """A decoder root, which fails where it does not fit."""
        try:
            self.ledger.reserve(name, weights)
            self.fixed[name] = weights
            self.ledger.reserve_share(name, weights // 3, group="activations")
            key_values = f"keys and values of {name}"
            most = self.ledger.total_bytes // device_ledger.KV_SHARE
            self.fixed[key_values] = self.ledger.reserve_share(key_values, most)
            self.cache(f"LoRAs of {name}", device_ledger.LORA_SHARE)
        except HplmError:
            self.unload(name)

    def unload(self, name: str) -> None:
        for part in (name, f"keys and values of {name}", f"LoRAs of {name}"):
            self.ledger.release(part)
            self.fixed.pop(part, None)
            self.caches.pop(part, None)

    @property
    def used_bytes(self) -> int:
        caches = sum(cache.bytes for cache in self.caches.values())
        activations = self.ledger.granted.get("activations", 0)
        return sum(self.fixed.values()) + activations + caches + self.rows.bytes


steps = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.sampled_from("abcd"), st.integers(0, 400 * KIB)),
        st.tuples(st.just("unload"), st.sampled_from("abcd"), st.just(0)),
        st.tuples(st.just("follow"), st.just(""), st.integers(0, 4 * KIB)),
        st.tuples(st.just("give back"), st.just(""), st.just(0)),
    ),
    max_size=12,
)


@given(total=st.integers(0, 512 * KIB), steps=steps)
def test_the_sum_fits_whatever_is_loaded_in_whatever_order(
    total: int, steps: list[tuple[str, str, int]]
) -> None:
    worker = Worker(DeviceLedger(total))
    for step, name, size in steps:
        match step:
            case "load":
                worker.load(name, size)
            case "unload":
                worker.unload(name)
            case "follow":
                worker.rows.follow({"root": Table(size), "domain": Table(size // 3)})  # type: ignore[dict-item]
            case "give back":
                worker.ledger.give_back()
                assert worker.rows.bytes == 0
        assert worker.used_bytes <= total
        assert worker.ledger.overflow_bytes == 0
        assert all(count >= 0 for count in worker.ledger.granted.values())


@given(
    host=st.integers(1, 4096 * GIB),
    free=st.integers(0, 200 * GIB),
    used=st.integers(0, 200 * GIB),
    models=st.integers(0, 4096 * GIB),
    wanted=st.integers(0, 400 * GIB),
    on_gpu=st.booleans(),
)
def test_a_ledger_is_no_larger_than_its_device_has_left(
    host: int, free: int, used: int, models: int, wanted: int, on_gpu: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_ledger, "machine_bytes", lambda: host)
        patch.setattr(device_ledger, "used_and_total_bytes", lambda _: (used, used + free))
        ledger = ledger_of(GPU if on_gpu else CPU, device_bytes=wanted, model_bytes=models)
    if on_gpu:
        assert ledger.total_bytes <= free
        assert not wanted or ledger.total_bytes <= wanted
    else:
        assert ledger.total_bytes == (wanted or max(host // 2, host - models))


def test_rows_of_tables_are_the_first_to_shrink_and_the_last_to_grow() -> None:
    told: list[tuple[str, int]] = []
    ledger = DeviceLedger(1000)
    ledger.add_cache("PETs", 400, lambda budget: told.append(("PETs", budget)))
    ledger.add_rows(lambda budget: told.append(("rows", budget)))
    assert told[-2:] == [("PETs", 400), ("rows", 600)]
    del told[:]
    ledger.reserve("root", 600)
    assert told == [("rows", 200), ("PETs", 200)]
    del told[:]
    ledger.release("root")
    assert sorted(told) == [("PETs", 400), ("rows", 600)]


def test_of_a_group_that_takes_turns_the_largest_counts() -> None:
    ledger = DeviceLedger(100)
    ledger.reserve("a", 30, group="activations")
    ledger.reserve("b", 70, group="activations")
    ledger.reserve("weights", 30)
    assert ledger.granted == {"activations": 70, "weights": 30}
    ledger.release("b")
    assert ledger.granted == {"activations": 30, "weights": 30}


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    ledger = DeviceLedger(3 << 20)
    ledger.reserve("root a", 2 << 20)
    with pytest.raises(HplmError, match="root b takes 2 MiB of device memory, and 1 of 3 are left"):
        ledger.reserve("root b", 2 << 20)
    assert ledger.granted == {"root a": 2 << 20}


def test_a_processor_keeps_no_copies_of_rows_unless_that_is_wanted() -> None:
    for wanted, rows in ((0, 0), (100, 100)):
        ledger = ledger_of(CPU, device_bytes=wanted)
        ledger.add_rows(lambda _: None)
        assert ledger.granted.get("rows of tables", 0) == rows


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""Bytes of memory of this machine."""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1048576\n", 1 << 20), ("max\n", MACHINE), (f"{2 * MACHINE}\n", MACHINE), (None, MACHINE)],
)
def test_a_container_has_what_its_limit_leaves_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, expected: int
) -> None:
    monkeypatch.setattr(machine_memory, "CGROUP_LIMIT", tmp_path / "memory.max")
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert machine_memory.machine_bytes() == expected
