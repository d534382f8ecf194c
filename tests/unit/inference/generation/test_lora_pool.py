"""The LoRAs of a runner: loaded aside, leased while requests run, within a budget."""

from collections import Counter

import pytest

from inference.decoder.lora import DecoderLora
from inference.engine.pet_pool import IntegrityError, PetPool, SlotMismatchError
from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.generation.lora_pool import LoadedModel, LoraPool
from inference.generation.step import AdapterState
from tests.unit.inference.decoder.loras import SmallDecoder, random_lora
from tests.unit.inference.generation.chunks import model
from tests.unit.inference.generation.decoder_world import LaterExecutor

LEASED, LOADING, NO_ROOM = AdapterState.LEASED, AdapterState.LOADING, AdapterState.NO_ROOM
MOST_ASKED = 4


LORA = random_lora(SmallDecoder(layers=1, hidden=8), {(0, "query"): 2})


class World:
    """A pool with room for so many models, all of one size. Those in `damaged` cannot be loaded."""

    def __init__(self, room: int) -> None:
        self.executor = LaterExecutor()
        self.damaged: set[str] = set()
        self.loads = Counter[str]()
        self.pool = LoraPool(PetPool(self._load, room * LORA.bytes), self.executor, MOST_ASKED)

    def _load(self, model: ModelIdentity) -> LoadedModel:
        self.loads[model.digest] += 1
        if model.digest in self.damaged:
            raise HplmError("corrupt_artifact", "the LoRA is damaged")
        return LoadedModel(DecoderLora(LORA.layout, LORA.row))

    def ask(self, *digests: str) -> list[AdapterState]:
        return [self.pool.acquire(model(digest)) for digest in digests]

    def run(self, *digests: str) -> None:
        """Lease these, which must find room."""
        self.ask(*digests)
        self.executor.run_all()
        assert self.ask(*digests) == [LEASED] * len(digests)

    def release(self, *digests: str) -> None:
        for digest in digests:
            self.pool.release(model(digest))


def test_a_model_is_loaded_aside_and_leased_when_it_is_there() -> None:
    world = World(2)
    assert world.ask("a", "a") == [LOADING, LOADING]
    assert not world.loads
    world.executor.run_all()
    assert world.ask("a", "a") == [LEASED, LEASED]
    assert world.loads == {"a": 1}


def test_requests_share_one_lease_of_a_model() -> None:
    world = World(2)
    world.run("a")
    assert world.ask("a") == [LEASED]
    world.release("a")
    assert world.pool.lora(model("a")) is not None
    world.release("a")
    with pytest.raises(SlotMismatchError):
        world.pool.lora(model("a"))


def test_leased_models_leave_no_room_until_they_are_released() -> None:
    world = World(2)
    world.run("a")
    world.run("b")
    assert world.ask("c") == [NO_ROOM]
    world.release("a")
    assert world.ask("c", "d") == [LOADING, NO_ROOM]


def test_a_model_that_is_loading_has_its_room() -> None:
    world = World(2)
    world.run("a")
    assert world.ask("b", "c") == [LOADING, NO_ROOM]
    world.executor.run_all()
    assert world.ask("c", "b") == [NO_ROOM, LEASED]


def test_the_first_model_is_loaded_alone_because_sizes_are_not_known() -> None:
    world = World(8)
    assert world.ask("a", "b") == [LOADING, NO_ROOM]
    world.executor.run_all()
    assert world.ask("a", "b", "c") == [LEASED, LOADING, LOADING]


def test_a_model_larger_than_the_budget_is_loaded_when_it_is_alone() -> None:
    world = World(0)
    world.run("a")
    assert world.ask("b") == [NO_ROOM]
    world.release("a")
    world.run("b")


def test_a_loaded_model_that_is_not_asked_for_any_more_gives_up_its_room() -> None:
    world = World(2)
    world.run("a")
    world.ask("b")
    world.executor.run_all()
    assert world.ask(*"ccccc") == [NO_ROOM] * MOST_ASKED + [LOADING]
    world.executor.run_all()
    assert world.ask("c", "b") == [LEASED, NO_ROOM]


def test_a_failed_load_is_raised_once_and_tried_again() -> None:
    world = World(2)
    world.damaged = {"a"}
    world.ask("a")
    world.executor.run_all()
    with pytest.raises(HplmError, match="damaged"):
        world.ask("a")
    world.damaged.clear()
    world.run("a")
    assert world.loads == {"a": 2}


def test_a_lease_that_nobody_gave_back_is_reported_when_idle() -> None:
    world = World(2)
    world.run("a")
    with pytest.raises(IntegrityError):
        world.pool.check_integrity()
    world.release("a")
    world.pool.check_integrity()
