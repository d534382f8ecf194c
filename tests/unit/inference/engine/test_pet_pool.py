"""The pool of models: bounded, least recently used first out, never one for another."""

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.adapters import PackedHplm
from inference.engine.pet_pool import IntegrityError, PetPool, SlotMismatchError
from inference.engine.rows import Answered, ModelIdentity
from tests.processes import PATIENCE_S
from tests.unit.inference.engine.shelf import KINDS, Shelf, identity, is_number, size, use
from tests.unit.inference.engine.worlds import EngineWorld

FIRST, SECOND, THIRD = 0, len(KINDS), 2 * len(KINDS)
"""Numbers of models of one size."""


def room_for(count: int) -> int:
    """Bytes of so many models of the largest size."""
    return count * size(FIRST)


def test_a_resident_hplm_is_not_loaded_again() -> None:
    pool = Shelf().pool(room_for(2))
    for number in (FIRST, SECOND, FIRST, SECOND):
        use(pool, number)
    assert pool.loads == 2


def test_the_least_recently_used_goes_first() -> None:
    shelf = Shelf()
    pool = shelf.pool(room_for(2))
    for number in (FIRST, SECOND, FIRST, THIRD, FIRST):
        use(pool, number)
    assert shelf.taken == [FIRST, SECOND, THIRD]
    use(pool, SECOND)
    assert shelf.taken == [FIRST, SECOND, THIRD, SECOND]


def test_leased_models_stay_beyond_the_budget_until_released() -> None:
    pool = Shelf().pool(room_for(2))
    numbers = [len(KINDS) * number for number in range(5)]
    leases = [pool.acquire(identity(number)) for number in numbers]
    assert all(is_number(lease.model(), number) for lease, number in zip(leases, numbers, strict=True))
    again = pool.acquire(identity(numbers[4]))
    for lease in leases:
        pool.release(lease)
    assert is_number(again.model(), numbers[4])
    pool.release(again)
    assert len(pool) == 2
    pool.check_integrity()


def test_a_large_hplm_takes_the_room_of_several_small_ones() -> None:
    pool = Shelf().pool(room_for(1))
    small = [2 + len(KINDS) * number for number in range(size(FIRST) // size(2))]
    use(pool, *small)
    assert len(pool) == len(small) > 1
    use(pool, FIRST)
    assert len(pool) == 1
    use(pool, *small)
    assert pool.loads == 2 * len(small) + 1
    pool.check_integrity()


def test_a_lease_of_a_slot_that_was_filled_again_is_refused() -> None:
    pool = Shelf().pool(room_for(1))
    old = pool.acquire(identity(FIRST))
    pool.release(old)
    use(pool, SECOND)
    with pytest.raises(SlotMismatchError):
        old.model()
    use(pool, FIRST)
    with pytest.raises(SlotMismatchError):
        old.model()


def test_a_slot_of_another_digest_is_refused_though_its_generation_is_right() -> None:
    lease = Shelf().pool(room_for(1)).acquire(identity(1))
    lease.slot.digest = identity(2).digest
    with pytest.raises(SlotMismatchError):
        lease.model()


def test_a_lease_answers_only_for_its_own_digest() -> None:
    lease = Shelf().pool(room_for(1)).acquire(identity(1))
    with pytest.raises(SlotMismatchError):
        lease.identity(identity(2))


def test_a_failed_load_leaves_nothing_behind() -> None:
    def fail(model: ModelIdentity) -> PackedHplm:
        raise OSError(model.hplm)

    pool = PetPool(fail, room_for(1))
    with pytest.raises(OSError, match="model1"):
        pool.acquire(identity(1))
    pool.check_integrity()
    assert len(pool) == 0


def test_a_retired_hplm_gives_its_slot_back() -> None:
    pool = Shelf().pool(room_for(2))
    use(pool, FIRST, SECOND)
    pool.keep({identity(SECOND).digest})
    assert (len(pool), pool.used_bytes) == (1, size(SECOND))
    use(pool, THIRD, SECOND)
    assert pool.loads == 3
    pool.check_integrity()


def test_a_retired_hplm_that_is_leased_is_there_to_the_end_and_goes_then() -> None:
    pool = Shelf().pool(room_for(2))
    use(pool, FIRST)
    lease = pool.acquire(identity(SECOND))
    pool.keep({identity(FIRST).digest})
    assert is_number(lease.model(), SECOND)
    pool.release(lease)
    assert not pool.holds(identity(SECOND).digest)
    assert pool.used_bytes == size(FIRST)
    pool.check_integrity()


def test_a_leased_hplm_that_is_published_again_stays() -> None:
    pool = Shelf().pool(room_for(2))
    lease = pool.acquire(identity(FIRST))
    pool.keep(set())
    pool.keep({identity(FIRST).digest})
    pool.release(lease)
    assert pool.holds(identity(FIRST).digest)


def test_smaller_budget_evicts_all_but_leased_models_at_once() -> None:
    pool = Shelf().pool(room_for(3))
    lease = pool.acquire(identity(FIRST))
    use(pool, SECOND, THIRD)
    pool.resize(0)
    assert (len(pool), pool.used_bytes) == (1, size(FIRST))
    pool.release(lease)
    assert pool.used_bytes == 0


def test_a_lease_that_was_not_released_is_noticed_when_idle() -> None:
    pool = Shelf().pool(room_for(2))
    pool.acquire(identity(1))
    with pytest.raises(IntegrityError, match="not released"):
        pool.check_integrity()


def test_threads_that_want_the_same_hplms_at_once_each_get_the_right_ones() -> None:
    shelf = Shelf()
    pool = shelf.pool(room_for(3))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(100):
                use(pool, *draw.sample(range(12), draw.randint(1, 4)))
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert pool.loads == len(shelf.taken) > 100
    pool.check_integrity()


@given(
    uses=st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True), max_size=20),
    room=st.integers(0, 4),
)
def test_under_churn_the_books_always_add_up(uses: list[list[int]], room: int) -> None:
    pool = Shelf().pool(room_for(room))
    for step in uses:
        use(pool, *step)
        pool.check_integrity()
        assert pool.used_bytes <= room * size(FIRST)


def test_slot_reuse_under_churn_keeps_identities_right(world: EngineWorld) -> None:
    executor = world.executor(budget_bytes=2 * max(hplm.model.bytes for hplm in world.tiny.hplms))
    draw = random.Random(7)
    for _ in range(60):
        rows = [world.row(draw.randrange(10), "the river stone") for _ in range(draw.randint(1, 5))]
        outcomes = executor.step(rows)
        assert max(world.differences(outcomes)) < 1e-4
        assert all(isinstance(outcome, Answered) for outcome in outcomes)
        executor.pool.check_integrity()
    assert executor.pool.loads > 60
    assert executor.counters.slot_mismatches == 0


def test_pinned_model_is_not_evicted_for_an_unpinned_one() -> None:
    pool = Shelf().pool(room_for(1))
    use(pool, FIRST)
    pool.pin({identity(FIRST).digest})
    use(pool, SECOND, THIRD)
    assert pool.holds(identity(FIRST).digest)
    assert (len(pool), pool.used_bytes) == (1, room_for(1))


def test_a_model_in_memory_is_leased_while_another_one_is_loaded() -> None:
    reading, go_on, shelf = threading.Event(), threading.Event(), Shelf()

    def load(model: ModelIdentity) -> PackedHplm:
        if int(model.digest) == SECOND:
            reading.set()
            assert go_on.wait(PATIENCE_S)
        return shelf.load(model)

    pool = PetPool(load, room_for(2))
    use(pool, FIRST)
    thread = threading.Thread(target=use, args=(pool, SECOND))
    thread.start()
    assert reading.wait(PATIENCE_S)
    use(pool, FIRST)
    go_on.set()
    thread.join()
    assert shelf.taken == [FIRST, SECOND]


def test_a_pinned_model_stays_though_a_batch_has_leased_another_beside_it() -> None:
    pool = Shelf().pool(room_for(1))
    pool.pin({identity(FIRST).digest})
    use(pool, FIRST, SECOND)
    assert (pool.holds(identity(FIRST).digest), pool.used_bytes) == (True, room_for(1))
