"""What a worker takes of its device: encoders and decoders book in one ledger, and a step that finds no
memory is tried again."""

import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.decoder.root import DecoderRoot
from inference.engine.rows import ModelIdentity
from inference.generation.step import AdapterState, Outcome, Step
from inference.hplm.root import Root
from inference.manifest import FILE_NAME, ManifestWatcher
from inference.serving.decoder_catalogue import DecoderCatalogue, FreeingRunner
from inference.serving.device_ledger import KV_SHARE, DeviceLedger, ledger_of
from inference.serving.encoder_catalogue import EncoderCatalogue
from inference.serving.lower_layers import chain_name
from tests.pretended_cuda import pretended_cuda
from tests.processes import PATIENCE_S
from tests.unit.inference.generation.decoder_world import a_request
from tests.unit.tiny_generative import GenerativeWorld, generative_world
from tests.unit.tiny_world import TinyWorld, tiny_world

CPU = torch.device("cpu")
PLENTY = 4 << 30


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    return tiny_world(tmp_path)


@pytest.fixture
def writers(world: TinyWorld) -> GenerativeWorld:
    return generative_world(Path(world.artifact_root))


class Worker:
    """The catalogues of a worker whose device has so many bytes."""

    def __init__(self, world: TinyWorld, total_bytes: int) -> None:
        self.ledger = DeviceLedger(total_bytes)
        path = Path(world.artifact_root) / FILE_NAME
        self.decoders = DecoderCatalogue(
            ManifestWatcher(path), device=CPU, dtype=torch.float32, ledger=self.ledger
        )
        self.encoders = EncoderCatalogue(
            ManifestWatcher(path), device=CPU, dtype=torch.float32, pool_bytes=1 << 30, ledger=self.ledger
        )

    def follow(self) -> dict[str, int]:
        """What the ledger granted once the manifest is served."""
        self.decoders.refresh()
        self.encoders.refresh()
        self.decoders.working()
        assert self.ledger.overflow_bytes == 0
        return self.ledger.granted


def test_encoders_decoders_and_rows_of_tables_share_one_device(
    world: TinyWorld, writers: GenerativeWorld
) -> None:
    world.publish(**writers.manifest_parts())
    worker = Worker(world, PLENTY)
    granted = worker.follow()
    decoder, encoder = f"root {writers.root[:12]} (1)", f"root {world.root_digest[:12]}"
    parts = {decoder, f"keys and values of {decoder}", f"LoRAs of {decoder}", "activations of a step"}
    parts |= {encoder, "activations of a batch", "compositions", "lower layers", "rows of tables"}
    assert granted.keys() == parts
    weights = sum(
        value.nbytes for value in worker.encoders.executors[world.root_digest].root.upper.parameters()
    )
    assert granted[encoder] == weights
    assert granted[f"keys and values of {decoder}"] == PLENTY // KV_SHARE
    assert 0 < worker.encoders.lower_layers.hot.bytes <= granted["rows of tables"]


def test_a_root_that_is_served_no_more_gives_its_memory_back(
    world: TinyWorld, writers: GenerativeWorld
) -> None:
    world.publish(**writers.manifest_parts())
    worker = Worker(world, PLENTY)
    worker.follow()
    world.publish(revision=2)
    granted = worker.follow()
    assert not [part for part in granted if writers.root[:12] in part]
    assert f"root {world.root_digest[:12]}" in granted


def test_a_root_that_comes_back_while_it_still_has_requests_is_booked_twice_until_they_end(
    world: TinyWorld, writers: GenerativeWorld
) -> None:
    world.publish(**writers.manifest_parts())
    worker = Worker(world, PLENTY)
    worker.follow()
    leaving = worker.decoders.roots[writers.root]
    leaving.engine.add(a_request("one", writers.models[0].digest, [1, 2], 2))
    world.publish(revision=2)
    worker.follow()
    world.publish(revision=3, **writers.manifest_parts())
    both = worker.follow()
    leaving.engine.cancel("one")
    leaving.engine.step()
    worker.decoders.working()
    after = worker.ledger.granted
    first, second = f"root {writers.root[:12]} (1)", f"root {writers.root[:12]} (2)"
    assert both[first] == both[second] == after[second] > 0
    assert first not in after
    assert {f"keys and values of {second}", f"LoRAs of {second}"} <= after.keys()


def test_a_root_for_which_there_is_no_memory_is_refused_and_books_nothing(
    world: TinyWorld, writers: GenerativeWorld
) -> None:
    world.publish(**writers.manifest_parts())
    worker = Worker(world, 1 << 10)
    granted = worker.follow()
    assert (worker.decoders.roots, worker.encoders.executors) == ({}, {})
    assert "are left. Raise HMI_DEVICE_MB" in worker.decoders.last_error
    assert not [part for part in granted if part.startswith(("root", "keys", "LoRAs"))]


def test_a_generative_model_that_is_deleted_leaves_the_worker(
    world: TinyWorld, writers: GenerativeWorld
) -> None:
    world.publish(**writers.manifest_parts())
    worker = Worker(world, PLENTY)
    worker.follow()
    loras = worker.decoders.roots[writers.root].loras
    first, *rest = writers.models
    model = ModelIdentity(first.tenant, first.hplm, first.version, first.digest)
    until = time.monotonic() + PATIENCE_S
    while loras.acquire(model) is not AdapterState.LEASED:
        assert time.monotonic() < until
    loras.release(model)
    assert loras.used_bytes > 0
    world.publish(revision=2, **replace(writers, models=tuple(rest)).manifest_parts())
    worker.follow()
    assert loras.used_bytes == 0


def test_a_gpu_is_shared_out_by_its_own_size_and_the_host_by_its_own(world: TinyWorld) -> None:
    gpu = torch.device("cuda:0")
    with pretended_cuda(free_bytes=10 << 30, total_bytes=16 << 30):
        ledger = ledger_of(gpu)
        catalogue = EncoderCatalogue(
            ManifestWatcher(Path(world.artifact_root) / FILE_NAME),
            device=gpu,
            dtype=torch.float16,
            pool_bytes=100 << 30,
            ledger=ledger,
        )
    assert ledger.total_bytes == 9 << 30
    assert ledger.granted["PETs"] == (9 << 30) // 4
    assert ledger.granted["rows of tables"] == (9 << 30) - (2 << 30) - (9 << 30) // 4
    assert catalogue.pool.budget_bytes == 100 << 30


@pytest.mark.parametrize(("device", "loaded"), [("cpu", 1), ("cuda:0", 0)])
def test_an_accelerator_holds_lower_layers_from_the_first_text_that_needs_them(
    world: TinyWorld, device: str, loaded: int
) -> None:
    world.publish()
    with pretended_cuda():
        catalogue = EncoderCatalogue(
            ManifestWatcher(Path(world.artifact_root) / FILE_NAME),
            device=torch.device(device),
            dtype=torch.float32,
            pool_bytes=1 << 30,
        )
        catalogue.refresh()
        catalogue.warm_up()
        layers = catalogue.lower_layers
        assert layers.lowers.loads == loaded
        served = next(iter(catalogue.manifest.hplms.values()))
        assert layers.for_chain(chain_name(served), full=True).full is not None
        assert layers.lowers.loads == 1


def test_load_without_memory_empties_the_caches_first(
    world: TinyWorld, writers: GenerativeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(**writers.manifest_parts())
    worker, refused = Worker(world, PLENTY), list[str]()

    def once_without_memory(kind: type, name: str) -> None:
        load = getattr(kind, name)

        def refuse_once(*arguments: Any) -> Any:
            if name not in refused:
                refused.append(name)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return load(*arguments)

        monkeypatch.setattr(kind, name, refuse_once)

    once_without_memory(Root, "load")
    once_without_memory(DecoderRoot, "decoder")
    worker.follow()
    assert sorted(refused) == ["decoder", "load"]
    assert (worker.decoders.last_error, worker.encoders.last_error) == ("", "")


class FullDevice:
    """A runner whose device has memory once it was freed so often."""

    def __init__(self, frees: int) -> None:
        self.freed = self.runs = 0
        self._frees = frees
        self._computed: list[weakref.ref[torch.Tensor]] = []

    def free(self) -> None:
        assert not [left for left in self._computed if left() is not None]
        self.freed += 1

    def run(self, step: Step) -> list[Outcome]:
        self.runs += 1
        states = torch.zeros(3)
        self._computed.append(weakref.ref(states))
        if self.freed < self._frees:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return []


def test_a_step_without_memory_drops_what_it_computed_frees_memory_and_is_tried_again() -> None:
    device = FullDevice(frees=1)
    assert FreeingRunner(device, device.free).run(Step(())) == []
    assert (device.runs, device.freed) == (2, 1)


def test_a_step_that_finds_no_memory_again_fails_for_the_engine_to_bisect() -> None:
    device = FullDevice(frees=9)
    with pytest.raises(torch.OutOfMemoryError):
        FreeingRunner(device, device.free).run(Step(()))
    assert (device.runs, device.freed) == (2, 1)
