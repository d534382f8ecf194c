"""Attacks by many small requests: the schema, a day's quota, event streams, streams of a revoked key."""

import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Barrier, BrokenBarrierError, Event
from typing import Any, Final

import httpx

from benchmarks.product.hostile.bodies import repeated
from benchmarks.product.hostile.target import Target, head, status

QUOTA: Final = 3
"""Requests a day of the tenants whose quota is tried."""
CONTINUING: Final = "continuing"
"""The model among theirs that continues texts."""
AT_ONCE, EVENT_STREAMS, JOBS, STREAMS, SCHEMAS_AT_ONCE = 30, 300, 6, 4, 4
BEGUN_WITHIN_S, MAX_TOKENS = 20.0, 4000
ENDS_WITHIN_S: Final = 30.0


def schema_floods(target: Target, until: float) -> Counter[str]:
    """The schema of the API, compressed, for strangers, over and over."""
    with target.http(key=False) as http:
        asked = {"Accept-Encoding": "gzip"}

        def send(_: int) -> str:
            return str(http.get("/api/schema/", headers=asked).status_code)

        return repeated(send, until, SCHEMAS_AT_ONCE)


def quota_at_once(target: Target, until: float) -> Counter[str]:
    """Thirty requests at once for a tenant that may send three a day. Counts as ``over quota``: answers
    beyond these."""
    del until  # all are sent once: a day has one quota
    found = Counter[str]()
    for model, key in target.quotas.items():
        texts = [" ".join([target.words] * 20)] * 32
        infer = ("/api/v1/infer", {"model": model, "inputs": texts})
        write = ("/v1/completions", {"model": model, "prompt": "Once upon a time", "max_tokens": 64})
        path, body = write if model.endswith(CONTINUING) else infer
        answers = _at_once(target, key, path, body)
        found += Counter(f"answered {answer}" for answer in answers)
        found["over quota"] += max(0, answers.count(httpx.codes.OK) - QUOTA)
    return found


def event_streams(target: Target, until: float) -> Counter[str]:
    """As many event streams of its jobs as one member gets."""
    found, jobs, held = Counter[str](), [], list[socket.socket]()
    with target.http() as http, closing(target.signed_in()) as person:
        for _ in range(JOBS):
            made = http.post(f"/api/v1/models/{target.hplm}/versions/1/evaluate", json={})
            if made.is_success:
                jobs.append(made.json()["id"])
        cookie = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
        for number in range(EVENT_STREAMS if jobs else 0):
            path = f"/t/{target.tenant}/jobs/{jobs[number % len(jobs)]}/live/"
            with suppress(OSError):
                connection = target.connect()
                connection.sendall(head("GET", path, {"Cookie": cookie}))
                held.append(connection)
        time.sleep(max(0.0, until - time.monotonic()))
        for job in jobs:
            http.post(f"/api/v1/jobs/{job}/cancel")
    for connection in held:
        connection.setblocking(False)
        found[f"answered {status(connection)}"] += 1
        connection.close()
    return found


def revoked_keys(target: Target, until: float) -> Counter[str]:
    """Streams of a key that is revoked while they run. Counts as ``ended after ms``: how long the last one
    went on."""
    writer = target.writing()
    model = target.templated or writer.hplm
    with closing(writer.signed_in()) as person:
        keys = f"/api/v1/tenants/{writer.tenant}/api-keys"
        made = person.post(keys, json={"name": f"{target.mark}-revoked", "scopes": ["infer"]})
        made.raise_for_status()
        key = made.json()
        with ThreadPoolExecutor(STREAMS) as pool:
            begun = Event()
            ends = [pool.submit(_stream, target, key["key"], model, until, begun) for _ in range(STREAMS)]
            begun.wait(BEGUN_WITHIN_S)
            running = [one for one in ends if not one.done()]
            revoked = time.monotonic()
            answer = person.delete(f"{keys}/{key['prefix']}")
            last = max((one.result() for one in running), default=revoked)
    took = round(1000 * max(0.0, last - revoked))
    return Counter(
        {f"revoked {answer.status_code}": 1, "streams that ran": len(running), "ended after ms": took}
    )


def _stream(target: Target, key: str, model: str, until: float, begun: Event) -> float:
    """When the stream ended, or when it was no longer waited for. Sets ``begun`` at its first event."""
    said = [{"role": "user", "content": f"tell of {target.words}"}]
    body: dict[str, Any] = {"model": model, "messages": said, "stream": True, "max_tokens": MAX_TOKENS}
    with target.http(key=False) as http, suppress(httpx.HTTPError):
        headers = {"Authorization": f"Bearer {key}"}
        with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            for _ in answer.iter_raw():
                begun.set()
                if time.monotonic() > until + ENDS_WITHIN_S:
                    break
    return time.monotonic()


def _at_once(target: Target, key: str, path: str, body: dict[str, Any]) -> list[int]:
    """The statuses of the answers to so many equal requests at the same moment; 0 where none came."""
    barrier = Barrier(AT_ONCE)
    headers = {"Authorization": f"Bearer {key}"}

    def send(_: int) -> int:
        with suppress(BrokenBarrierError):
            barrier.wait(5.0)
        try:
            return http.post(path, json=body, headers=headers).status_code
        except httpx.HTTPError:
            return 0

    with target.http(key=False) as http, ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(send, range(AT_ONCE)))
