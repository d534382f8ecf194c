"""The worker times batches when it loads a root, or does not."""

from collections.abc import Callable

import pytest
from redis import Redis

from inference.queueing.transport import RequestQueue
from inference.serving.environment import SettingError, WorkerSettings
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

pytestmark = pytest.mark.slow


def test_batches_are_timed_for_a_second_when_a_root_is_loaded_unless_it_is_set() -> None:
    env = {"REDIS_URL": "unix:///x", "HMI_ARTIFACT_ROOT": "/x"}
    assert WorkerSettings.from_env(env).profile_s == 1.0
    assert WorkerSettings.from_env(env | {"HMI_PROFILE_S": "0"}).profile_s == 0.0
    with pytest.raises(SettingError, match="HMI_PROFILE_S"):
        WorkerSettings.from_env(env | {"HMI_PROFILE_S": "-1"})


@pytest.mark.parametrize("profile_s", ["0", "0.05"])
def test_a_worker_answers_rightly_whether_it_timed_batches_or_not(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker], profile_s: str
) -> None:
    queue = RequestQueue(redis, capacity=100)
    start_worker(HMI_PROFILE_S=profile_s).wait_until_ready()
    requests = [request_for(hplm, *tiny_texts(6, seed=n)) for n, hplm in enumerate(world.hplms)]
    for request in requests:
        queue.submit(request)
    wait_until(lambda: depth(redis) == 0)
    replies = {reply.id: reply for reply in replies_in(redis)}
    for request in requests:
        assert_right(world, request, replies[request.id])
