"""PostgreSQL is killed while requests are served."""

import time
import uuid

import pytest

from inference.api.prepared_request import outputs_of, token_sequences
from inference.queueing import keys
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.transport import RequestQueue
from inference.text.encodings import InferInput
from tests.integration.serving_faults.installation import Installation
from tests.processes import wait_until

pytestmark = pytest.mark.slow

REPLIES = keys.replies("faults")
TEXTS = ("a good stone", "the river of the doctor", "poor patient", "copper city")


def resolved(site: Installation, text: str) -> InferRequest:
    """A request as the web process sends it once it has asked the database which version is meant."""
    served, codec, now = site.served(), site.codec(), time.time()
    return InferRequest(
        id=uuid.uuid4().hex,
        tenant=served.tenant,
        hplm=served.hplm,
        version=served.version,
        digest=served.digest,
        root=served.root,
        sequences=token_sequences(codec.encode([InferInput(text)]), task=codec.task),
        deadline=now + 60,
        enqueued_at=now,
        reply_to=REPLIES,
    )


def test_the_worker_serves_what_was_resolved_and_the_web_recovers_by_itself(site: Installation) -> None:
    worker, web = site.worker, site.web.child.pid
    site.assert_right(site.ask("before"), "before")
    site.postgres.kill()
    request = resolved(site, "a good stone")
    RequestQueue(site.redis, capacity=100).submit(request)
    wait_until(lambda: site.redis.xlen(REPLIES) == 1, worker)
    [(_, fields)] = site.redis.xrange(REPLIES)
    reply = InferReply.decode(fields[keys.FIELD.encode()])
    assert (reply.id, reply.ok, reply.model.digest) == (request.id, True, request.digest)
    codec = site.codec()
    [result] = codec.results(codec.encode([InferInput("a good stone")]), outputs_of(reply.outputs))
    assert result["label"] == site.alone("a good stone").label

    assert site.get("/health/live").status_code == 200
    health = site.get("/health/ready")
    assert (health.status_code, health.json()["database"]) == (503, "failed")
    assert health.json()["inference_worker"] == "ok"

    site.postgres.start()
    wait_until(lambda: site.get("/health/ready").status_code == 200, worker)
    site.assert_right(site.ask("after"), "after")
    assert worker.process.poll() is None
    assert (site.web.child.pid, site.web.runs()) == (web, True)


def test_the_first_who_ask_after_a_restart_that_nobody_noticed_are_answered(site: Installation) -> None:
    """Connections that the web kept from before are of no use, and must not be tried on them."""
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.worker.resume()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)
    site.postgres.kill()
    site.postgres.start()
    for text in TEXTS:
        site.assert_right(site.ask(text), text)
