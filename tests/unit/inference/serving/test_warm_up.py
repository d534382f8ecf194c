"""Loading ahead of requests ends in time: before the worker is ready, and beside its requests."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from inference.engine.adapters import PackedHplm
from inference.engine.rows import ModelIdentity
from inference.manifest import FILE_NAME, ManifestWatcher, ServedHplm
from inference.serving import encoder_catalogue as module
from inference.serving.encoder_catalogue import EncoderCatalogue
from tests.processes import wait_until
from tests.unit.tiny_world import TinyWorld, tiny_world

WARM_UP_S, LOAD_AHEAD_S = 15.0, 5.0
HPLMS = 12


class SlowDisk:
    """Each model takes ``load_s`` of the catalogue's time to load, and each text ``run_s``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.load_s, self.run_s, self.runs = 100.0, 1.0, 1.0, 0
        read, run_once = EncoderCatalogue._read_hplm, EncoderCatalogue._run_once

        def read_slowly(catalogue: EncoderCatalogue, model: ModelIdentity) -> PackedHplm:
            self.now += self.load_s
            return read(catalogue, model)

        def run_slowly(catalogue: EncoderCatalogue, hplm: ServedHplm) -> None:
            self.now += self.run_s
            self.runs += 1
            run_once(catalogue, hplm)

        monkeypatch.setattr(EncoderCatalogue, "_read_hplm", read_slowly)
        monkeypatch.setattr(EncoderCatalogue, "_run_once", run_slowly)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    return SlowDisk(monkeypatch)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return tiny_world(tmp_path_factory.mktemp("world"), hplms=HPLMS)


@pytest.fixture
def catalogue(world: TinyWorld, disk: SlowDisk) -> EncoderCatalogue:
    watcher = ManifestWatcher(Path(world.artifact_root) / FILE_NAME)
    return EncoderCatalogue(
        watcher,
        device=torch.device("cpu"),
        dtype=torch.float32,
        pool_bytes=1 << 30,
        warm_up_s=WARM_UP_S,
        load_ahead_s=LOAD_AHEAD_S,
    )


def test_loading_before_ready_leaves_time_to_run_texts(
    world: TinyWorld, catalogue: EncoderCatalogue, disk: SlowDisk
) -> None:
    world.publish()
    begun, disk.load_s = disk.now, 2.5
    catalogue.refresh()
    catalogue.warm_up()
    assert catalogue.pool.loads == 4
    assert disk.runs > 0
    assert disk.now - begun < WARM_UP_S


def test_no_text_begins_after_the_deadline(
    world: TinyWorld, catalogue: EncoderCatalogue, disk: SlowDisk
) -> None:
    world.publish(hplms=world.hplms[:2])
    disk.run_s = WARM_UP_S
    catalogue.refresh()
    catalogue.warm_up()
    assert (catalogue.pool.loads, disk.runs) == (2, 1)


def test_a_later_revision_is_loaded_for_less_time(world: TinyWorld, catalogue: EncoderCatalogue) -> None:
    world.publish(hplms=world.hplms[:1])
    catalogue.refresh()
    catalogue.warm_up()
    world.publish(revision=2)
    catalogue.refresh()
    wait_until(lambda: catalogue.keep_up() or not catalogue.is_bringing)
    assert catalogue.pool.loads == 1 + LOAD_AHEAD_S
