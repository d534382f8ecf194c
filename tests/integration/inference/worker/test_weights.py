"""Weights reach a worker by the manifest, while it serves."""

from collections import Counter

from redis import Redis

from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny_world import TinyHplm, TinyWorld

TENANTS = ("acme", "globex")
ROWS = 40


def of_tenant(world: TinyWorld, tenant: str) -> TinyHplm:
    return next(hplm for hplm in world.hplms if hplm.tenant == tenant)


def served_first(desk: Desk, world: TinyWorld) -> Counter[str]:
    """Whose requests are answered first when both tenants ask for as much; the others are answered too."""
    before = len(replies_in(desk.redis))
    for tenant in TENANTS * ROWS:
        desk.queue.submit(request_for(of_tenant(world, tenant), "the river stone"))
    desk.serve()
    answered = replies_in(desk.redis)[before:]
    assert len(answered) == 2 * ROWS
    return Counter(reply.model.tenant for reply in answered[:ROWS])


def test_a_new_weight_counts_without_a_restart(redis: Redis, redis_url: str, world: TinyWorld) -> None:
    """Weights so far apart that it does not matter how long rows really take."""
    desk = Desk(redis_url, world, rows=4)
    desk.ask(*[request_for(of_tenant(world, tenant), "stone") for tenant in TENANTS])
    for revision, (heavy, light) in enumerate((TENANTS, TENANTS[::-1]), start=2):
        world.publish(revision=revision, weights={heavy: 100.0, light: 0.01})
        assert served_first(desk, world)[heavy] >= 0.8 * ROWS
    desk.close()
