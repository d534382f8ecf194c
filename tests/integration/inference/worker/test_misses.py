"""The worker counts the fragments that a domain's tables lack."""

import json
import struct
from typing import Any

from redis import Redis

from inference.cascade.dispatcher import Level
from inference.queueing.misses import missed_fragments
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny_world import TinyHplm, TinyWorld

UNSEEN = "zebra quixotic zebra river zebra stone quixotic"


def of_domain(world: TinyWorld) -> TinyHplm:
    return next(hplm for hplm in world.hplms if len(hplm.plots) == 2)


def names_of_counts(redis: Redis) -> list[str]:
    found: Any = redis.keys("hmi:misses:*:*")
    return [key.decode() for key in found]


def test_what_the_tables_lack_is_counted_for_the_nearest_table(
    desk: Desk, world: TinyWorld, redis: Redis
) -> None:
    """Those of texts that were looked up."""
    hplm = of_domain(world)
    for level in (Level.TABLE, Level.FULL, Level.TABLE, Level.TABLE):
        desk.ask(request_for(hplm, UNSEEN, level=level))
    desk.counter.flush()
    found = missed_fragments(redis, tables=[hplm.plots[0]], least_count=3, least_tenants=1)
    [once] = desk.ask(request_for(hplm, UNSEEN))
    assert sum(fragment.count for fragment in found) == 3 * (once.plot.bigram + once.plot.unigram)
    zebra = world.root.tokenizer.encode("zebra").ids[1]
    assert any(zebra in fragment.ids for fragment in found)
    assert missed_fragments(redis, tables=[hplm.plots[1]], least_count=1, least_tenants=1) == []


def test_nothing_is_counted_where_no_domain_can_grow(desk: Desk, world: TinyWorld, redis: Redis) -> None:
    [hplm] = [hplm for hplm in world.hplms if len(hplm.plots) == 1][:1]
    desk.ask(request_for(hplm, UNSEEN))
    desk.counter.flush()
    assert names_of_counts(redis) == []


def test_nothing_is_counted_for_a_tenant_that_does_not_share(
    desk: Desk, world: TinyWorld, redis: Redis
) -> None:
    path = world.publish(revision=2)
    manifest = json.loads(path.read_text())
    for entry in manifest["hplms"].values():
        entry["shares_counts"] = entry["tenant"] != "acme"
    manifest["revision"] = 3
    replaced = path.with_suffix(".new")
    replaced.write_text(json.dumps(manifest))
    replaced.replace(path)
    desk.ask(*[request_for(hplm, UNSEEN) for hplm in world.hplms])
    desk.counter.flush()
    assert {name.rsplit(":", 1)[1] for name in names_of_counts(redis)} == {"globex"}


def test_fragments_are_counted_as_ids(desk: Desk, world: TinyWorld, redis: Redis) -> None:
    """And nothing else of a text is kept."""
    desk.ask(request_for(of_domain(world), "quixotic"))
    desk.counter.flush()
    [name] = names_of_counts(redis)
    members: Any = redis.zrange(name, 0, -1)
    assert members
    for member in members:
        assert len(struct.unpack(">3i", member)) == 3
