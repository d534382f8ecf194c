"""Thousands of requests for more models than a worker has room for: each gets its own model's answer."""

import random
from collections.abc import Callable

import pytest
from redis import Redis

from inference.queueing.messages import InferRequest
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.more_hplms import MIB, large_hplms, sizes
from tests.integration.inference.worker.references import References
from tests.integration.inference.worker.traffic import Load
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

REQUESTS, HPLMS, AT_FIRST = 10_000, 20, 8
TEXTS = tiny_texts(30, seed=4, longest=24)


@pytest.mark.thorough
def test_ten_thousand_requests_under_churn_get_each_the_answer_of_its_own_hplm(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker]
) -> None:
    """Room for four models; every 500 requests another one is published."""
    world = large_hplms(world, HPLMS)
    by_size = sizes(world.hplms)
    assert sum(by_size[-4:]) <= MIB < sum(by_size[:5])
    references, draw = References(world), random.Random(9)
    alike = [hplm for hplm in world.hplms if hplm.model.task == "classification"]
    first = [references.expected(hplm, request_for(hplm, TEXTS[0]).sequences[0]) for hplm in alike]
    assert len({str(outputs) for outputs in first}) == len(alike)

    def make(number: int) -> InferRequest:
        published = min(HPLMS, AT_FIRST + number // 500)
        if number % 500 == 0:
            world.publish(revision=1 + number, hplms=world.hplms[:published])
        hplm = draw.choice(world.hplms[:published])
        return request_for(hplm, *draw.choices(TEXTS, k=draw.randint(1, 3)))

    worker = start_worker(HMI_MODEL_CACHE_MB="1").wait_until_ready()
    with Load(redis, make, references.assert_right, outstanding=100, most=REQUESTS) as load:
        load.finish(within_s=800)
    assert load.answered == REQUESTS

    def all_told() -> bool:
        status = worker.status()
        return status is not None and status.rows >= REQUESTS

    wait_until(all_told, worker)
    status = worker.told()
    assert (status.slot_mismatches, status.last_error) == (0, "")
