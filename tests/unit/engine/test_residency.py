"""The cache of hPLMs: bounded, least recently used first out, never one for another."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.residency import HplmCache, IntegrityError, SlotMismatchError
from inference.engine.rows import Answered, ModelIdentity
from inference.hplm.hplm import Hplm
from tests.unit.engine.worlds import EngineWorld


def identity(number: int) -> ModelIdentity:
    return ModelIdentity("acme", f"model{number}", 1, f"{number:064d}")


class Shelf:
    """Hplms by number, all of one size, that counts how often each was taken."""

    def __init__(self, hplm: Hplm) -> None:
        self.hplm = hplm
        self.taken: list[str] = []

    def load(self, model: ModelIdentity) -> Hplm:
        self.taken.append(model.hplm)
        return replace(self.hplm, about={"of": model.digest})

    def cache(self, room_for: int) -> HplmCache[Hplm]:
        return HplmCache(self.load, budget_bytes=room_for * self.hplm.bytes)


@pytest.fixture(scope="module")
def shelf(shared_world: EngineWorld) -> Shelf:
    return Shelf(shared_world.tiny.hplms[0].model)


def use(cache: HplmCache[Hplm], number: int) -> None:
    lease = cache.acquire(identity(number))
    assert lease.hplm().about["of"] == identity(number).digest
    assert lease.identity(identity(number)) == identity(number)
    cache.release(lease)


def test_a_resident_hplm_is_not_loaded_again(shelf: Shelf) -> None:
    cache = shelf.cache(2)
    for number in (1, 2, 1, 2):
        use(cache, number)
    assert cache.loads == 2


def test_the_least_recently_used_goes_first(shelf: Shelf) -> None:
    cache = shelf.cache(2)
    for number in (1, 2, 1, 3, 1):
        use(cache, number)
    assert cache.loads == 3
    use(cache, 2)
    assert cache.loads == 4


def test_what_is_leased_stays_and_the_excess_goes_afterwards(shelf: Shelf) -> None:
    cache = shelf.cache(2)
    leases = [cache.acquire(identity(number)) for number in range(5)]
    assert len({lease.hplm().about["of"] for lease in leases}) == 5
    for lease in leases:
        cache.release(lease)
    assert len(cache) == 2
    cache.check_integrity()


def test_without_room_every_use_is_a_load(shelf: Shelf) -> None:
    cache = shelf.cache(0)
    use(cache, 1)
    use(cache, 1)
    assert (cache.loads, len(cache), cache.used_bytes) == (2, 0, 0)


def test_a_lease_of_a_slot_that_was_filled_again_is_refused(shelf: Shelf) -> None:
    cache = shelf.cache(1)
    old = cache.acquire(identity(1))
    cache.release(old)
    use(cache, 2)
    with pytest.raises(SlotMismatchError):
        old.hplm()
    use(cache, 1)
    with pytest.raises(SlotMismatchError):
        old.hplm()


def test_a_slot_of_another_digest_is_refused_though_its_generation_is_right(shelf: Shelf) -> None:
    lease = shelf.cache(1).acquire(identity(1))
    lease.slot.digest = identity(2).digest
    with pytest.raises(SlotMismatchError):
        lease.hplm()


def test_a_lease_answers_only_for_its_own_digest(shelf: Shelf) -> None:
    lease = shelf.cache(1).acquire(identity(1))
    with pytest.raises(SlotMismatchError):
        lease.identity(identity(2))


def test_a_failed_load_leaves_nothing_behind(shelf: Shelf) -> None:
    def fail(model: ModelIdentity) -> Hplm:
        raise OSError(model.hplm)

    cache = HplmCache(fail, budget_bytes=10)
    with pytest.raises(OSError, match="model1"):
        cache.acquire(identity(1))
    cache.check_integrity()
    assert len(cache) == 0


def test_a_lease_that_was_not_released_is_noticed_when_idle(shelf: Shelf) -> None:
    cache = shelf.cache(2)
    cache.acquire(identity(1))
    with pytest.raises(IntegrityError, match="not released"):
        cache.check_integrity()


def test_a_slot_under_the_wrong_name_is_noticed_when_idle(shelf: Shelf) -> None:
    cache = shelf.cache(2)
    use(cache, 1)
    cache._slots[identity(2).digest] = cache._slots.pop(identity(1).digest)
    with pytest.raises(IntegrityError, match="holds"):
        cache.check_integrity()
    cache.clear()
    cache.check_integrity()


@given(
    uses=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), max_size=20),
    room=st.integers(0, 4),
)
def test_under_churn_the_books_always_add_up(shelf: Shelf, uses: list[list[int]], room: int) -> None:
    cache = shelf.cache(room)
    for step in uses:
        leases = [cache.acquire(identity(number)) for number in step]
        assert [lease.hplm().about["of"] for lease in leases] == [identity(n).digest for n in step]
        for lease in leases:
            cache.release(lease)
        cache.check_integrity()
        assert len(cache) <= room


def test_slot_reuse_under_churn_keeps_identities_right(world: EngineWorld) -> None:
    room = 2 * max(hplm.model.bytes for hplm in world.tiny.hplms)
    executor = world.executor(budget_bytes=room)
    draw = random.Random(7)
    for _ in range(60):
        rows = [world.row(draw.randrange(10), "the river stone") for _ in range(draw.randint(1, 5))]
        outcomes = executor.step(rows)
        assert max(world.differences(outcomes)) < 1e-4
        assert all(isinstance(outcome, Answered) for outcome in outcomes)
        executor.cache.check_integrity()
    assert executor.cache.loads > 60
    assert executor.counters.slot_mismatches == 0
