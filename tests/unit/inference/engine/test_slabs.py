"""Slabs on a disk: what is read is what was stored, whatever became of the file meanwhile."""

import logging
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference.engine.packed import PackedHplm
from inference.engine.residency import HplmCache
from inference.engine.slab import SLOTS, DamagedSlotError, Slab
from inference.engine.slabs import Slabs, slot_bytes
from tests.unit.inference.engine.shelf import KINDS, Shelf, identity, is_number, packed, size, use

MIB = 1024**2
ROOM = 8 * size(0)
HEADERS_AT, SLOTS_AT = 4096, 4096 + 128 * SLOTS


@contextmanager
def opened(folder: Path, shelf: Shelf, room: int = ROOM) -> Iterator[HplmCache]:
    """A cache on the slabs of the folder, as a process has it from its start to its end."""
    cache = shelf.cache(Slabs.lent(folder, torch.float32, budget_bytes=room))
    try:
        yield cache
    finally:
        cache.check_integrity()
        cache.close()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Three models of three sizes in slabs; `file_of` is where each lies."""
    with opened(tmp_path, Shelf()) as cache:
        use(cache, 0, 1, 2)
    return tmp_path


def file_of(folder: Path, number: int) -> Path:
    return folder / "float32-0" / f"{size(number)}.slab"


def on_disk(folder: Path) -> int:
    """Bytes that the slabs take."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*.slab"))


def test_what_was_stored_is_there_again_without_loading(stored: Path) -> None:
    shelf = Shelf()
    with opened(stored, shelf) as cache:
        assert (len(cache), cache.used_bytes) == (3, size(0) + size(1) + size(2))
        use(cache, 2, 1, 0)
    assert shelf.taken == []


def test_generations_go_on_where_they_ended(stored: Path) -> None:
    with opened(stored, Shelf()) as cache:
        leases = [cache.acquire(identity(number)) for number in range(4)]
        assert [lease.generation for lease in leases] == [1, 2, 3, 4]
        for lease in leases:
            cache.release(lease)


def test_after_a_restart_what_was_stored_first_goes_first(tmp_path: Path) -> None:
    first, second, third = (len(KINDS) * number for number in range(3))
    with opened(tmp_path, Shelf(), 2 * size(0)) as cache:
        use(cache, first, second)
    shelf = Shelf()
    with opened(tmp_path, shelf, 2 * size(0)) as cache:
        use(cache, third, second)
    assert shelf.taken == [third]


def test_a_flipped_bit_is_noticed_and_the_files_are_read_again(
    stored: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = file_of(stored, 0)
    content = bytearray(path.read_bytes())
    content[content.index(packed(0).content()[-1].tobytes()) + 20] ^= 1
    path.write_bytes(content)
    shelf = Shelf()
    with opened(stored, shelf) as cache:
        use(cache, 0, 1, 2)
        use(cache, 0)
    assert shelf.taken == [0]
    assert "another checksum" in caplog.text
    with opened(stored, shelf) as cache:
        use(cache, 0)
    assert shelf.taken == [0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[: 9 * MIB],
        lambda content: bytes(len(content)),
        lambda content: b"\xff" * len(content),
        lambda content: content.replace(b"HMI slab 1", b"HMI slab 2"),
        lambda content: content[:4096] + os.urandom(MIB) + content[MIB + 4096 :],
        lambda content: content * 2,
    ],
    ids=["empty", "head-cut", "slots-cut", "zeros", "ones", "format", "noise", "longer"],
)
def test_a_file_that_is_none_of_ours_costs_a_load_and_nothing_else(
    stored: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = file_of(stored, 0)
    path.write_bytes(damage(path.read_bytes()))
    shelf = Shelf()
    with opened(stored, shelf) as cache:
        use(cache, 0, 1, 2)
    assert set(shelf.taken) <= {0}
    with opened(stored, shelf) as cache:
        use(cache, 0, 1, 2)
    assert len(shelf.taken) <= 1


def test_a_file_that_is_started_anew_is_told(stored: Path, caplog: pytest.LogCaptureFixture) -> None:
    file_of(stored, 0).write_bytes(b"no slab")
    with opened(stored, Shelf()):
        assert "started anew" in caplog.text


def test_a_header_that_is_cut_off_leaves_an_empty_slot(stored: Path) -> None:
    content = file_of(stored, 0).read_bytes()
    at = content.index(identity(0).digest.encode())
    file_of(stored, 0).write_bytes(content[: at + 70] + bytes(10) + content[at + 80 :])
    with opened(stored, Shelf()) as cache:
        assert len(cache) == 2


def test_content_that_only_looks_like_an_hplm_is_refused() -> None:
    content = b"".join(part.tobytes() for part in packed(0).content())
    for wrong in (
        content[:-4],
        content + bytes(4),
        content.replace(b'"layers": 2', b'"layers": 3'),
        content.replace(b'"hidden": 32', b'"hidden": {}'),
        content.replace(b'"hidden": 32', b'"hidden": -9'),
        content.replace(b'"outputs"', b'"oatputs"'),
        content.replace(b'"cls"', b'"clx"'),
        b"\xff" * len(content),
        bytes(len(content)),
        b"",
    ):
        with pytest.raises(DamagedSlotError, match="no model"):
            PackedHplm.mapped(memoryview(bytearray(wrong)), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_every_kind_of_hplm_is_read_as_it_was_written(number: int, dtype: torch.dtype) -> None:
    content = b"".join(part.tobytes() for part in packed(number, dtype).content())
    assert is_number(PackedHplm.mapped(memoryview(bytearray(content)), dtype), number)


def test_another_number_format_has_slabs_of_its_own(stored: Path) -> None:
    slabs = Slabs.lent(stored, torch.bfloat16, budget_bytes=ROOM)
    assert slabs.found() == []
    slabs.close()
    with opened(stored, Shelf()) as cache:
        assert len(cache) == 3


def test_a_second_worker_has_slabs_of_its_own(stored: Path) -> None:
    shelf = Shelf()
    with opened(stored, shelf) as first, opened(stored, shelf) as second:
        assert (len(first), len(second)) == (3, 0)
        use(second, 0, 4)
        use(first, 0)
        use(second, 0)
    assert shelf.taken == [0, 4]
    assert {path.name for path in stored.iterdir()} == {"float32-0", "float32-1"}


def test_the_slabs_of_all_sizes_keep_within_one_budget(tmp_path: Path) -> None:
    tables = 3 * 2 * os.sysconf("SC_PAGESIZE")
    with opened(tmp_path, Shelf()) as cache:
        for start in range(0, 60, len(KINDS)):
            for number in (*range(start, 60, len(KINDS)), *range(start)):
                use(cache, number)
            assert cache.used_bytes <= ROOM
            assert on_disk(tmp_path) <= ROOM + tables


def test_with_less_room_than_before_what_does_not_fit_goes(tmp_path: Path) -> None:
    numbers = [len(KINDS) * number for number in range(8)]
    with opened(tmp_path, Shelf()) as cache:
        use(cache, *numbers)
    with opened(tmp_path, Shelf(), 2 * size(0)) as cache:
        assert len(cache) == 2
        use(cache, *numbers)
        assert len(cache) == 2
    with opened(tmp_path, Shelf()) as cache:
        use(cache, *numbers)
        assert len(cache) == 8


@contextmanager
def no_file_longer_than(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_slot_that_cannot_be_written_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = [len(KINDS) * number for number in range(4)]
    shelf = Shelf()
    with opened(tmp_path, shelf) as cache:
        use(cache, numbers[0])
        with no_file_longer_than(SLOTS_AT + 5 * size(0) // 2), caplog.at_level(logging.WARNING):
            for _ in range(3):
                use(cache, *numbers)
            assert len(cache) == 2
            assert caplog.text.count("stays at") == 1
        cache.check_integrity()
    with opened(tmp_path, Shelf()) as cache:
        assert len(cache) == 2
        use(cache, *numbers)


def test_a_folder_that_somebody_removes_is_served_from_as_before(tmp_path: Path) -> None:
    shelf = Shelf()
    with opened(tmp_path, shelf) as cache:
        use(cache, 0)
        for path in [*(tmp_path / "float32-0").iterdir()]:
            path.unlink()
        (tmp_path / "float32-0").rmdir()
        use(cache, 0, 1, 3)
    assert shelf.taken == [0, 1, 3]


def test_slots_are_hardly_larger_than_what_they_hold() -> None:
    for bits in range(12, 34):
        for wanted in (2**bits - 1, 2**bits, 2**bits + 1, 2**bits + 2**bits // 3):
            given_bytes = slot_bytes(wanted)
            assert wanted <= given_bytes <= wanted + max(4096, wanted // 8 + 1)
            assert given_bytes == slot_bytes(given_bytes)


def test_a_slab_has_no_more_slots_than_its_table_has_headers(tmp_path: Path) -> None:
    file = os.open(tmp_path / "4096.slab", os.O_RDWR | os.O_CREAT)
    slab = Slab(file, "float32", 4096, SLOTS + 10)
    assert slab.slots == len(slab.vacant) == SLOTS
    last = slab.fill(SLOTS - 1, identity(2).digest, 1, packed(2).content())
    slab.close()
    again = Slab(os.open(tmp_path / "4096.slab", os.O_RDWR), "float32", 4096, SLOTS + 10)
    assert again.found == {SLOTS - 1: last}
    again.verify(SLOTS - 1, last)
    again.close()


USES = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("use"), USES),
    st.tuples(st.just("keep"), USES),
    st.tuples(st.just("hold"), USES),
    st.tuples(st.just("let go"), st.just([])),
    st.tuples(st.just("reopen"), st.just([])),
    st.tuples(st.just("damage"), USES),
)


@settings(deadline=None)
@given(steps=st.lists(STEPS, max_size=25), room=st.integers(0, 4))
@example(steps=[("use", [0]), ("use", [3, 1]), ("reopen", []), ("use", [0])], room=2)
def test_whatever_happens_what_is_read_is_what_was_stored(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int]]], room: int
) -> None:
    folder = tmp_path_factory.mktemp("slabs")
    shelf = Shelf()

    def open_again() -> HplmCache:
        return shelf.cache(Slabs.lent(folder, torch.float32, budget_bytes=room * size(0)))

    cache, held = open_again(), []
    for step, numbers in steps:
        if step == "use":
            use(cache, *numbers)
        elif step == "keep":
            cache.keep({identity(number).digest for number in numbers})
        elif step == "hold":
            held += [(number, cache.acquire(identity(number))) for number in numbers]
        elif step in ("let go", "reopen"):
            for number, lease in held:
                assert is_number(lease.hplm(), number)
                cache.release(lease)
            held = []
            cache.check_integrity()
        if step == "reopen":
            cache.close()
            cache = open_again()
        elif step == "damage" and not held:
            cache.close()
            for path in folder.rglob("*.slab"):
                content = bytearray(path.read_bytes())
                for number in numbers:
                    content[HEADERS_AT + number * 37] ^= 255
                    content[min(SLOTS_AT + number * 997, len(content) - 1)] ^= 255
                path.write_bytes(content)
            cache = open_again()
        for number, lease in held:
            assert is_number(lease.hplm(), number)
        assert cache.used_bytes <= room * size(0)
    cache.close()
