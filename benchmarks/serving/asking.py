"""Sends requests into the queue, each at its time: ``python -m benchmarks.serving.asking URL PLACES``, in a
process of its own, as the web server is, so that the worker that is measured loses no time to it.

Standard input has one JSON object. ``arrivals``: seconds after the start, the fields of a request that say
which model is asked, and its token ids, int32 in hex. ``reply_to``: where answers go.
"""

import json
import sys
import time
import uuid
from typing import Any

from inference.queueing.connection import connect
from inference.queueing.messages import InferRequest, TokenSequence
from inference.queueing.transport import QueueFull, RequestQueue

DEADLINE_S = 300.0
SOON_S = 0.1


def ask(queue: RequestQueue, arrivals: list[tuple[float, dict[str, Any], str]], reply_to: str) -> None:
    """Those that the queue has no place for are refused, and not sent again. A request counts from the moment
    when it should have been sent, so that nothing waits unseen."""
    start = time.time() + SOON_S
    for after, model, ids in arrivals:
        due = start + after
        time.sleep(max(0.0, due - time.time()))
        request = InferRequest(
            id=uuid.uuid4().hex,
            sequences=(TokenSequence(bytes.fromhex(ids)),),
            deadline=due + DEADLINE_S,
            enqueued_at=due,
            reply_to=reply_to,
            **model,
        )
        try:
            queue.submit(request)
        except QueueFull:
            continue


if __name__ == "__main__":
    url, places = sys.argv[1:]
    ask(RequestQueue(connect(url), capacity=int(places)), **json.load(sys.stdin))
