"""A root that cannot be loaded is tried again, and a lost device is said: for encoders and decoders."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.decoder.root import DecoderRoot
from inference.errors import DeviceLostError
from inference.hplm.encoder import FullLower
from inference.hplm.root import Root
from inference.manifest import FILE_NAME, Manifest, ManifestWatcher
from inference.serving.catalogue import FIRST_RETRY_S, LAST_RETRY_S, Catalogue, Revision
from inference.serving.decoder_catalogue import DecoderCatalogue
from inference.serving.encoder_catalogue import EncoderCatalogue
from tests.unit.fake_clock import FakeClock
from tests.unit.inference.test_device_errors import out_of_memory_elsewhere
from tests.unit.tiny_generative import generative_world
from tests.unit.tiny_world import TinyWorld, tiny_world

LOST = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    """An encoder and a decoder root, published together."""
    world = tiny_world(tmp_path_factory.mktemp("world"), hplms=2)
    world.publish(**generative_world(world.artifact_root).manifest_parts())
    return world


class Loads:
    """``fail_with`` makes the loads of something fail, until `succeed`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._fails = False

    def fail_with(self, error: Exception, loaded: type) -> None:
        self._fails, load = True, loaded.load  # type: ignore[attr-defined]

        def may_fail(*given: Any, **more: Any) -> Any:
            if self._fails:
                raise error
            return load(*given, **more)

        self._monkeypatch.setattr(loaded, "load", may_fail)

    def succeed(self) -> None:
        self._fails = False


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    return Loads(monkeypatch)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


Serving = EncoderCatalogue | DecoderCatalogue


@pytest.fixture(
    params=[(EncoderCatalogue, Root), (DecoderCatalogue, DecoderRoot)], ids=["encoder", "decoder"]
)
def kind(request: pytest.FixtureRequest) -> tuple[type[Serving], type]:
    found: tuple[type[Serving], type] = request.param
    return found


def catalogue_of(kind: type[Serving], world: TinyWorld, clock: FakeClock) -> Serving:
    watcher = ManifestWatcher(Path(world.artifact_root) / FILE_NAME)
    made = kind(watcher, device=torch.device("cpu"), dtype=torch.float32, **OF_KIND[kind])
    made._clock = clock
    return made


OF_KIND: dict[type[Serving], dict[str, Any]] = {
    EncoderCatalogue: {"pool_bytes": 1 << 24},
    DecoderCatalogue: {"cache_bytes": 1 << 20},
}


def missing(catalogue: Serving) -> list[str]:
    return [root.name for root in catalogue.missing_roots]


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), out_of_memory_elsewhere(), OSError("stale handle")],
)
def test_a_root_that_could_not_be_loaded_is_named_and_loaded_later(
    kind: tuple[type[Serving], type], world: TinyWorld, clock: FakeClock, loads: Loads, error: Exception
) -> None:
    loads.fail_with(error, kind[1])
    catalogue = catalogue_of(kind[0], world, clock)
    catalogue.refresh()
    assert missing(catalogue) == ["tiny" if kind[0] is EncoderCatalogue else "writer"]
    assert str(error) in catalogue.last_error
    catalogue.refresh()
    loads.succeed()
    assert missing(catalogue)  # it is not time yet
    clock.now += FIRST_RETRY_S
    catalogue.keep_up()
    catalogue.refresh()
    assert not missing(catalogue)
    assert catalogue.last_error == ""


def test_lost_device_while_a_root_is_loaded_is_raised(
    kind: tuple[type[Serving], type], world: TinyWorld, clock: FakeClock, loads: Loads
) -> None:
    loads.fail_with(LOST, kind[1])
    with pytest.raises(DeviceLostError, match="illegal memory access"):
        catalogue_of(kind[0], world, clock).refresh()


def test_roots_are_served_if_their_lower_layers_find_no_memory(
    world: TinyWorld, clock: FakeClock, loads: Loads
) -> None:
    loads.fail_with(torch.OutOfMemoryError("CUDA out of memory"), FullLower)
    catalogue = catalogue_of(EncoderCatalogue, world, clock)
    assert isinstance(catalogue, EncoderCatalogue)
    catalogue.refresh()
    [root] = catalogue.executors.values()
    assert "out of memory" in catalogue.last_error
    loads.succeed()
    clock.now += FIRST_RETRY_S
    catalogue.keep_up()
    catalogue.refresh()
    assert catalogue.last_error == ""
    assert [*catalogue.executors.values()] == [root]
    assert catalogue.lower_layers.lowers.loads == 1


class ScriptedCatalogue(Catalogue[Revision]):
    """Loads what the test gives. ``begun``: when it was tried."""

    def __init__(self, watcher: ManifestWatcher, give: Callable[[], str], clock: FakeClock) -> None:
        super().__init__("test", watcher, Revision(Manifest(artifact_root=Path()), ""), clock)
        self.begun: list[float] = []
        self._give = give

    def _load(self, manifest: Manifest) -> Revision:
        self.begun.append(self._clock())
        return Revision(manifest, self._give())

    def _swap(self, revision: Revision) -> None:
        self._now = revision


@pytest.fixture
def watcher(tmp_path: Path) -> ManifestWatcher:
    parts: dict[str, Any] = {"roots": {}, "lowers": {}, "hplms": {}}
    (tmp_path / FILE_NAME).write_text(json.dumps({"format": 2, "revision": 1, **parts}))
    return ManifestWatcher(tmp_path / FILE_NAME)


def attempts(watcher: ManifestWatcher, give: Callable[[], str], clock: FakeClock) -> Iterator[float]:
    """When the catalogue tries to load a revision; it is asked to keep up every half second."""
    catalogue = ScriptedCatalogue(watcher, give, clock)
    while True:
        catalogue.keep_up()
        catalogue.keep_up(wait=True)
        yield from catalogue.begun
        catalogue.begun.clear()
        clock.now += 0.5


def raises() -> str:
    raise MemoryError("for ever")


@pytest.mark.parametrize("give", [raises, lambda: "no memory"], ids=["at all", "in part"])
def test_failed_load_is_retried_at_growing_intervals(
    give: Callable[[], str], watcher: ManifestWatcher, clock: FakeClock
) -> None:
    tried = attempts(watcher, give, clock)
    times = [next(tried) for _ in range(9)]
    waits = [after - before for before, after in pairwise(times)]
    assert waits == [FIRST_RETRY_S, 2.0, 4.0, 8.0, 16.0, 32.0, LAST_RETRY_S, LAST_RETRY_S]


def test_after_a_success_the_next_failure_is_tried_again_soon(
    watcher: ManifestWatcher, clock: FakeClock
) -> None:
    given = iter(["none", "none", "", "none", "none"])
    tried = attempts(watcher, lambda: next(given), clock)
    assert [next(tried) for _ in range(3)] == [0.0, 1.0, 3.0]
    watcher.invalidate()  # nothing else would be tried
    again = next(tried)
    assert next(tried) - again == FIRST_RETRY_S
