"""Rows of tables on the device, where there is room for them: the answers are the same."""

import pytest

from inference.hplm.plot import PlotTable
from inference.hplm.row_cache import REFRESH_INTERVAL
from inference.machine_memory import machine_bytes
from inference.serving.device_ledger import ROWS
from inference.serving.environment import SettingError, WorkerSettings
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

PLENTY = 1 << 40


def bytes_of_rows(world: TinyWorld) -> int:
    tables = [PlotTable.open(world.folder("plot", d)) for d in {d for h in world.hplms for d in h.plots}]
    return sum(2 * len(table) * table.n * table.hidden for table in tables)


def bytes_of_weights(redis_url: str, world: TinyWorld) -> int:
    """The least for everything but rows of tables: of what roots leave, activations take half at most, and
    the compositions need the other half."""
    desk = Desk(redis_url, world, lower_bytes=0, device_bytes=PLENTY, name="weights")
    desk.step()
    desk.close()
    granted = desk.catalogue.ledger.granted
    fixed = sum(size for name, size in granted.items() if name not in ("activations of a batch", ROWS))
    return fixed + granted["compositions"]


@pytest.mark.parametrize("room", ["none", "some", "all"])
def test_answers_do_not_depend_on_how_many_rows_lie_on_the_device(
    redis_url: str, world: TinyWorld, room: str
) -> None:
    weights, rows = bytes_of_weights(redis_url, world), bytes_of_rows(world)
    device_bytes = {"none": weights, "some": weights + rows // 2, "all": PLENTY}[room]
    desk = Desk(redis_url, world, lower_bytes=0, device_bytes=device_bytes)
    texts = tiny_texts(3 * REFRESH_INTERVAL, seed=1)
    for at in range(2 * REFRESH_INTERVAL):
        desk.ask(request_for(world.hplms[at % 2], texts[at]))
    requests = [request_for(hplm, *tiny_texts(3, seed=n)) for n, hplm in enumerate(world.hplms)]
    for request, reply in zip(requests, desk.ask(*requests), strict=True):
        assert_right(world, request, reply)
    hot = desk.catalogue.lower_layers.hot
    most = min(hot.budget_bytes, rows)
    assert 0.8 * most <= hot.bytes <= most
    assert (most > 0, most == rows) == (room != "none", room == "all")


def test_the_pet_pool_takes_a_quarter_of_the_memory_unless_it_is_set(
    redis_url: str, world: TinyWorld
) -> None:
    env = {"REDIS_URL": redis_url, "HMI_ARTIFACT_ROOT": str(world.artifact_root)}
    assert WorkerSettings.from_env(env | {"HMI_MODEL_CACHE_MB": "3"}).pool_bytes == 3 << 20
    assert WorkerSettings.from_env(env).pool_bytes is None
    desk = Desk(redis_url, world, pool_bytes=None)
    assert desk.catalogue.pool.budget_bytes == machine_bytes() // 4
    desk.close()


def test_room_on_the_device_is_what_is_free_unless_it_is_set() -> None:
    env = {"REDIS_URL": "unix:///x", "HMI_ARTIFACT_ROOT": "/x"}
    assert WorkerSettings.from_env(env).device_bytes == 0
    assert WorkerSettings.from_env(env | {"HMI_DEVICE_MB": "3"}).device_bytes == 3 << 20
    with pytest.raises(SettingError, match="HMI_DEVICE_MB"):
        WorkerSettings.from_env(env | {"HMI_DEVICE_MB": "much"})
