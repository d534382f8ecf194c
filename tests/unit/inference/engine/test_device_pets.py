"""PETs on an accelerator: copied once, evicted in the order of their use."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

from inference.engine.device_pets import DevicePets, copy_pinned
from inference.hplm.pets.batch import SegmentPets
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.weights import PetWeights
from tests.unit.inference.engine.shelf import KINDS, Shelf, identity, load, packed

FIRST, SECOND, THIRD = (packed(len(KINDS) * number).pet for number in range(3))
"""Of one size."""


def on_device(models: int) -> DevicePets:
    """With room for so many; the device is the CPU's other memory."""
    return DevicePets(Tensor.clone, models * FIRST.rows.nbytes)


def use(pets: DevicePets, *batch: PackedPet) -> None:
    for layer in range(2):
        for pet in batch:
            assert torch.equal(pets.row(pet, layer), pet.rows[layer])


def test_a_pet_is_copied_once() -> None:
    pets = on_device(2)
    use(pets, FIRST, SECOND)
    use(pets, SECOND, FIRST)
    assert pets.copies == 4


def test_the_least_recently_used_is_evicted() -> None:
    pets = on_device(2)
    for pet in (FIRST, SECOND, FIRST, THIRD, FIRST):
        use(pets, pet)
    assert pets.copies == 6
    use(pets, SECOND)
    assert (pets.copies, pets.used_bytes) == (8, pets.budget_bytes)


def test_a_batch_larger_than_the_budget_is_computed_all_the_same() -> None:
    pets = on_device(0)
    use(pets, FIRST, SECOND, THIRD)
    assert pets.used_bytes == THIRD.rows.nbytes


def test_a_batch_keeps_the_rows_that_it_was_given() -> None:
    pets = on_device(1)
    batch = SegmentPets.of([FIRST], [4], pets.row)
    rows = batch.load(0)
    use(pets, SECOND, THIRD)
    assert batch.load(0) is rows
    assert torch.equal(rows[0], FIRST.rows[0])


def test_a_model_that_was_loaded_again_finds_its_copy() -> None:
    pets = on_device(2)
    use(pets, FIRST, load(0).pet, FIRST)
    assert (pets.copies, pets.used_bytes) == (2, FIRST.rows.nbytes)


def test_pets_of_no_model_are_never_taken_for_one_another() -> None:
    pets, spec = on_device(2), FIRST.layout.spec
    made = [PackedPet.of(PetWeights.initial(spec, FIRST.layout.shape), FIRST.rows.dtype) for _ in range(2)]
    use(pets, *made)


@pytest.mark.parametrize("leave", ["evicted", "deleted", "deleted while leased", "pool cleared"])
def test_a_model_that_leaves_the_pool_leaves_host_and_device(leave: str) -> None:
    pets = on_device(3)
    shelf = Shelf()
    shelf.load = lambda model: load(int(model.digest))  # type: ignore[method-assign]
    pool = shelf.pool(packed(0).bytes, pets)
    lease = pool.acquire(identity(0))
    use(pets, lease.model().pet)
    rows = weakref.ref(lease.model().pet.rows)
    if leave == "deleted while leased":
        pool.keep(set())
    pool.release(lease)
    match leave:
        case "evicted":
            pool.release(pool.acquire(identity(len(KINDS))))
        case "deleted":
            pool.keep({identity(1).digest})
        case "pool cleared":
            pool.clear()
    gc.collect()
    assert (pets.used_bytes, rows()) == (0, None)


def test_a_smaller_budget_is_kept_at_once() -> None:
    pets = on_device(3)
    use(pets, FIRST, SECOND, THIRD)
    pets.resize(FIRST.rows.nbytes)
    assert pets.used_bytes == FIRST.rows.nbytes
    use(pets, THIRD)
    assert pets.copies == 6


@pytest.mark.gpu
def test_an_accelerator_computes_with_its_own_copy() -> None:
    pets = DevicePets(copy_pinned(torch.device("cuda")), FIRST.rows.nbytes)
    [row] = SegmentPets.of([FIRST], [4], pets.row).load(0)
    [again] = SegmentPets.of([FIRST], [4], pets.row).load(0)
    assert row.device.type == "cuda"
    assert row.data_ptr() == again.data_ptr()
    torch.cuda.synchronize()
    assert torch.equal(row.cpu(), FIRST.rows[0])
