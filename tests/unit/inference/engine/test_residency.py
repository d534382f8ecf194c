"""The cache of models: bounded, least recently used first out, never one for another."""

import random
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.packed import PackedHplm
from inference.engine.residency import HplmCache, IntegrityError, SlotMismatchError
from inference.engine.rows import Answered, ModelIdentity
from inference.engine.slabs import Slabs
from tests.unit.inference.engine.shelf import KINDS, Shelf, identity, is_number, size, use
from tests.unit.inference.engine.worlds import EngineWorld

FIRST, SECOND, THIRD = 0, len(KINDS), 2 * len(KINDS)
"""Numbers of models of one size."""


def room_for(count: int) -> Slabs:
    """Of memory, for so many models of the largest size."""
    return Slabs(None, torch.float32, budget_bytes=count * size(FIRST))


def test_a_resident_hplm_is_not_loaded_again() -> None:
    cache = Shelf().cache(room_for(2))
    for number in (FIRST, SECOND, FIRST, SECOND):
        use(cache, number)
    assert cache.loads == 2


def test_the_least_recently_used_goes_first() -> None:
    shelf = Shelf()
    cache = shelf.cache(room_for(2))
    for number in (FIRST, SECOND, FIRST, THIRD, FIRST):
        use(cache, number)
    assert shelf.taken == [FIRST, SECOND, THIRD]
    use(cache, SECOND)
    assert shelf.taken == [FIRST, SECOND, THIRD, SECOND]


def test_what_is_leased_stays_and_what_had_no_place_goes_afterwards() -> None:
    cache = Shelf().cache(room_for(2))
    numbers = [len(KINDS) * number for number in range(5)]
    leases = [cache.acquire(identity(number)) for number in numbers]
    assert all(is_number(lease.hplm(), number) for lease, number in zip(leases, numbers, strict=True))
    again = cache.acquire(identity(numbers[4]))
    for lease in leases:
        cache.release(lease)
    assert is_number(again.hplm(), numbers[4])
    cache.release(again)
    assert len(cache) == 2
    cache.check_integrity()


def test_without_room_every_use_is_a_load() -> None:
    cache = Shelf().cache(room_for(0))
    use(cache, 1)
    use(cache, 1)
    assert (cache.loads, len(cache), cache.used_bytes) == (2, 0, 0)


def test_a_large_hplm_takes_the_room_of_several_small_ones() -> None:
    cache = Shelf().cache(room_for(1))
    small = [2 + len(KINDS) * number for number in range(size(FIRST) // size(2))]
    use(cache, *small)
    assert len(cache) == len(small) > 1
    use(cache, FIRST)
    assert len(cache) == 1
    use(cache, *small)
    assert cache.loads == 2 * len(small) + 1
    cache.check_integrity()


def test_a_lease_of_a_slot_that_was_filled_again_is_refused() -> None:
    cache = Shelf().cache(room_for(1))
    old = cache.acquire(identity(FIRST))
    cache.release(old)
    use(cache, SECOND)
    with pytest.raises(SlotMismatchError):
        old.hplm()
    use(cache, FIRST)
    with pytest.raises(SlotMismatchError):
        old.hplm()


def test_a_lease_whose_place_was_filled_behind_its_back_is_refused() -> None:
    cache = Shelf().cache(room_for(1))
    lease = cache.acquire(identity(FIRST))
    assert lease.slot.filled is not None
    other = Shelf().load(identity(SECOND))
    lease.slot.filled.place.fill(identity(SECOND).digest, lease.generation, other.content())
    with pytest.raises(SlotMismatchError, match="filled anew"):
        lease.hplm()
    with pytest.raises(SlotMismatchError, match="filled anew"):
        lease.identity(identity(FIRST))


def test_a_lease_whose_place_was_filled_with_the_same_again_is_refused() -> None:
    cache = Shelf().cache(room_for(1))
    lease = cache.acquire(identity(FIRST))
    assert lease.slot.filled is not None
    lease.slot.filled.place.fill(lease.digest, lease.generation + 1, lease.hplm().content())
    with pytest.raises(SlotMismatchError, match="filled anew"):
        lease.hplm()


def test_a_slot_of_another_digest_is_refused_though_its_generation_is_right() -> None:
    lease = Shelf().cache(room_for(1)).acquire(identity(1))
    lease.slot.digest = identity(2).digest
    with pytest.raises(SlotMismatchError):
        lease.hplm()


def test_a_lease_answers_only_for_its_own_digest() -> None:
    lease = Shelf().cache(room_for(1)).acquire(identity(1))
    with pytest.raises(SlotMismatchError):
        lease.identity(identity(2))


def test_a_failed_load_leaves_nothing_behind() -> None:
    def fail(model: ModelIdentity) -> PackedHplm:
        raise OSError(model.hplm)

    cache = HplmCache(fail, room_for(1))
    with pytest.raises(OSError, match="model1"):
        cache.acquire(identity(1))
    cache.check_integrity()
    assert len(cache) == 0


def test_a_retired_hplm_gives_its_slot_back() -> None:
    cache = Shelf().cache(room_for(2))
    use(cache, FIRST, SECOND)
    cache.keep({identity(SECOND).digest})
    assert (len(cache), cache.used_bytes) == (1, size(SECOND))
    use(cache, THIRD, SECOND)
    assert cache.loads == 3
    cache.check_integrity()


def test_a_retired_hplm_that_is_leased_is_there_to_the_end_and_goes_first() -> None:
    cache = Shelf().cache(room_for(2))
    use(cache, FIRST)
    lease = cache.acquire(identity(SECOND))
    cache.keep({identity(FIRST).digest})
    assert is_number(lease.hplm(), SECOND)
    cache.release(lease)
    use(cache, THIRD)
    use(cache, FIRST)
    assert cache.loads == 3


def test_a_lease_that_was_not_released_is_noticed_when_idle() -> None:
    cache = Shelf().cache(room_for(2))
    cache.acquire(identity(1))
    with pytest.raises(IntegrityError, match="not released"):
        cache.check_integrity()


def test_a_slot_under_the_wrong_name_is_noticed_when_idle() -> None:
    cache = Shelf().cache(room_for(2))
    use(cache, 1)
    cache._slots[identity(2).digest] = cache._slots.pop(identity(1).digest)
    with pytest.raises(IntegrityError, match="not its own"):
        cache.check_integrity()
    cache.clear()
    cache.check_integrity()
    use(cache, 1, 2)
    assert cache.loads == 3


def test_bytes_that_do_not_add_up_are_noticed_when_idle() -> None:
    cache = Shelf().cache(room_for(2))
    use(cache, 1)
    cache.used_bytes += 1
    with pytest.raises(IntegrityError, match="add up"):
        cache.check_integrity()


def test_threads_that_want_the_same_hplms_at_once_each_get_the_right_ones() -> None:
    shelf = Shelf()
    cache = shelf.cache(room_for(3))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(100):
                use(cache, *draw.sample(range(12), draw.randint(1, 4)))
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert cache.loads == len(shelf.taken) > 100
    cache.check_integrity()


@given(
    uses=st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True), max_size=20),
    room=st.integers(0, 4),
)
def test_under_churn_the_books_always_add_up(uses: list[list[int]], room: int) -> None:
    cache = Shelf().cache(room_for(room))
    for step in uses:
        use(cache, *step)
        cache.check_integrity()
        assert cache.used_bytes <= room * size(FIRST)


@pytest.mark.parametrize("on_disk", [False, True])
def test_slot_reuse_under_churn_keeps_identities_right(
    world: EngineWorld, tmp_path: Path, on_disk: bool
) -> None:
    room = 2 * max(hplm.model.bytes for hplm in world.tiny.hplms)
    slabs = Slabs(tmp_path if on_disk else None, torch.float32, budget_bytes=room)
    executor = world.executor(slabs=slabs)
    draw = random.Random(7)
    for _ in range(60):
        rows = [world.row(draw.randrange(10), "the river stone") for _ in range(draw.randint(1, 5))]
        outcomes = executor.step(rows)
        assert max(world.differences(outcomes)) < 1e-4
        assert all(isinstance(outcome, Answered) for outcome in outcomes)
        executor.cache.check_integrity()
    assert executor.cache.loads > 60
    assert executor.counters.slot_mismatches == 0
