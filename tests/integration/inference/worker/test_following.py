"""What is published while the worker serves: read in the background, served from one moment to the next."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from redis import Redis

from inference.hplm.hplm import WEIGHTS_FILE
from inference.hplm.plot import VECTORS_FILE
from inference.queueing.messages import InferReply, InferRequest
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import (
    assert_right,
    code_of,
    of_domain,
    of_tenant,
    request_for,
    under_root,
)
from tests.integration.inference.worker.desk import TIMING, Desk
from tests.integration.inference.worker.held_files import HeldFile
from tests.processes import wait_until
from tests.unit.tiny_world import TinyWorld


def answered(desk: Desk, request: InferRequest) -> InferReply:
    """The reply, by a worker that goes on and waits for nothing that is published."""
    found: list[InferReply] = []

    def there() -> bool:
        desk.server.step()
        found.extend(reply for reply in replies_in(desk.redis) if reply.id == request.id)
        return bool(found)

    wait_until(there)
    return found[0]


@pytest.fixture
def unread(desk: Desk, world: TinyWorld) -> HeldFile:
    """The worker serves what stands under the root alone. The revision after it has only the domain's, whose
    table cannot be read before it is released."""
    world.publish(revision=1, hplms=[under_root(world)])
    desk.step()
    held = HeldFile(world.folder("plot", of_domain(world).plots[0]) / VECTORS_FILE)
    world.publish(revision=2, hplms=[of_domain(world)])
    return held


def test_new_manifest_is_loaded_without_a_request(desk: Desk, world: TinyWorld) -> None:
    desk.step()
    world.publish(revision=5)
    wait_until(lambda: desk.server.step() or desk.catalogue.manifest.revision == 5)


def test_requests_are_answered_while_the_next_revision_is_read(
    desk: Desk, world: TinyWorld, unread: HeldFile
) -> None:
    before, after = (request_for(under_root(world), "the river") for _ in range(2))
    desk.queue.submit(before)
    assert_right(world, before, answered(desk, before))
    assert desk.catalogue.manifest.revision == 1
    unread.release()
    desk.catalogue.refresh()
    desk.queue.submit(after)
    assert code_of(answered(desk, after)) == "not_found"
    assert desk.catalogue.manifest.revision == 2


def test_request_for_an_unread_revision_waits_until_it_is_read(
    desk: Desk, world: TinyWorld, unread: HeldFile
) -> None:
    new, old = request_for(of_domain(world), "the river"), request_for(under_root(world), "the river")
    for request in (new, old):
        desk.queue.submit(request)
    assert answered(desk, old).ok
    assert desk.queue.depth() == 1
    unread.release()
    assert_right(world, new, answered(desk, new))


def test_requests_for_an_unread_revision_do_not_delay_others(
    desk: Desk, world: TinyWorld, unread: HeldFile
) -> None:
    desk.new_loop(rows=2, timing=replace(TIMING, backlog_rows=4))
    many = [request_for(of_domain(world), *["the river"] * 3) for _ in range(4)]
    for request in (*many, old := request_for(under_root(world), "the river")):
        desk.queue.submit(request)
    assert answered(desk, old).ok
    assert desk.queue.depth() == len(many)
    unread.release()
    for request in many:
        assert_right(world, request, answered(desk, request))


def test_request_for_an_unread_revision_waits_until_its_deadline(
    desk: Desk, world: TinyWorld, unread: HeldFile
) -> None:
    request = request_for(of_domain(world), "the river", seconds=50)
    desk.queue.submit(request)
    desk.server.step()
    desk.late = 60
    assert code_of(answered(desk, request)) == "deadline_exceeded"
    unread.release()


def test_table_with_one_other_byte_fails_only_the_requests_that_need_it(desk: Desk, world: TinyWorld) -> None:
    alter(world, "plot", of_domain(world).plots[0], VECTORS_FILE)
    bad, good = request_for(of_domain(world), "river"), request_for(under_root(world), "river")
    refused, right = desk.ask(bad, good)
    assert code_of(refused) == "inference_failed"
    assert_right(world, good, right)
    assert "is damaged" in desk.catalogue.last_error


def test_a_damaged_hplm_is_read_once_until_its_files_change(desk: Desk, world: TinyWorld) -> None:
    restore = alter(world, "hplm", of_domain(world).digest, WEIGHTS_FILE)
    messages = set()
    for _ in range(3):
        [refused] = desk.ask(request_for(of_domain(world), "river"))
        assert refused.error is not None
        messages.add((refused.error.code, refused.error.message))
    assert len(messages) == 1
    assert desk.metrics.registry.get_sample_value("hmi_worker_adapter_load_failures_total") == 1
    assert "checksum" in desk.server.last_error
    restore()
    [reply] = desk.ask(request := request_for(of_domain(world), "river"))
    assert_right(world, request, reply)


def alter(world: TinyWorld, kind: str, digest: str, name: str) -> Callable[[], object]:
    """Change one byte of a file; what is returned puts it back."""
    path = world.folder(kind, digest) / name
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    return lambda: path.write_bytes(content)


TENANTS = ("acme", "globex")
ROWS = 40


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
