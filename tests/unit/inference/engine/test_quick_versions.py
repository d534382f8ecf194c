"""Quick versions in the engine: models without a PET, beside others."""

import pytest
import torch
from torch import Tensor

from inference.engine.adapters import PackedHplm
from inference.engine.device_pets import DevicePets
from inference.engine.executor import Executor
from inference.engine.pet_pool import PetPool
from inference.engine.rows import ModelIdentity
from inference.hplm.hplm import Hplm
from inference.hplm.root import Root
from tests.unit.inference.engine.numerics import quick_versions
from tests.unit.inference.engine.worlds import CPU, EngineWorld, TinyHalves
from tests.unit.tiny import tiny_hplms

QUICK = (4, 5, 6)
TEXT = "the river zebra quixotic stone of a doctor in the winter city"
TEXTS = ("the river stone", "a doctor of the city", TEXT)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    def make(root: Root) -> list[Hplm]:
        return [*tiny_hplms(root, 4), *quick_versions(root)]

    return EngineWorld(tmp_path_factory.mktemp("quick"), make)


def test_models_without_a_pet_are_kept_on_a_device_beside_others(world: EngineWorld) -> None:
    """The device is the CPU's other memory."""
    root = Root.load(world.tiny.folder("root", world.tiny.root_digest), CPU, torch.float32)
    copies = DevicePets(Tensor.clone, 1 << 20)

    def load(model: ModelIdentity) -> PackedHplm:
        hplm = Hplm.load(world.tiny.folder("hplm", model.digest))
        return PackedHplm.of(hplm, torch.float32, model.digest)

    pool = PetPool(load, 1 << 20, copies)
    executor = Executor(root, TinyHalves(world, torch.float32), pool)
    rows = [world.row(number, text) for text in TEXTS for number in range(7)]
    assert max(world.differences(executor.step(rows))) < 1e-4
    before = copies.used_bytes
    assert max(world.differences(executor.step(rows))) < 1e-4
    assert copies.used_bytes == before > 0
    for number in QUICK:
        copies.forget(world.row(number, TEXT).model.digest)
    assert copies.used_bytes < before, "their heads were there"
