"""The web process is killed while it waits for answers."""

import httpx
import pytest

from inference.queueing import keys
from inference.queueing.transport import REPLIES_LIFE_S, RequestQueue
from tests.integration.serving_faults.installation import Installation
from tests.processes import wait_until

pytestmark = pytest.mark.slow

GONE = -2
"""What Redis says of a key that has ended."""
TEXTS = ("a good stone", "the river of the doctor", "poor patient", "copper city")


def test_killed_web_server_leaves_no_requests_and_answers_after_a_restart(site: Installation) -> None:
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.web.kill()
    site.worker.resume()
    wait_until(lambda: site.waiting() == 0, site.worker)
    assert RequestQueue(site.redis, capacity=0).delivered() == 0
    for waiting in asked.values():
        with pytest.raises(httpx.TransportError):
            waiting.result()
    nobodys = site.redis.keys(keys.REPLIES_PREFIX + "*")
    assert nobodys
    lives = [life for stream in nobodys if (life := site.redis.ttl(stream)) != GONE]
    assert all(0 <= life <= REPLIES_LIFE_S for life in lives)

    worker = site.worker
    site.web.start()
    for text in TEXTS:
        site.assert_right(site.ask(text), text)
    assert site.worker is worker
    assert worker.process.poll() is None
